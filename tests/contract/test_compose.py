"""docker-compose.yml and Dockerfile, read as far as that goes without an engine: schema, security, sense."""

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

from console import workers
from console.workers import WORKERS

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docker-compose.yml"
COMPOSE: dict[str, Any] = yaml.safe_load(FILE.read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ONE_SHOT = {"migrate", "setup", "setup-development"}
OURS = sorted(name for name, service in SERVICES.items() if service["image"].startswith("reprise-"))
STAGES = re.split(r"^FROM ", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)[1:]
APART = {
    "spark-master": set(), "spark-worker": set(), "pipelines": {"pipelines_token", "spark_conf"},
    "pipelines-development": {"pipelines_development_token", "spark_conf_development"},
}  # fmt: skip
"""Services in which people's code runs, and the secrets that each may have."""
STAGE = {stage.split()[2]: stage for stage in STAGES}


def service_params(names: list[str] | None = None) -> Any:
    return pytest.mark.parametrize("name", names or sorted(SERVICES))


def test_it_is_a_compose_file() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_it_has_no_security_finding_of_weight() -> None:
    command = [str(Path(sys.executable).parent / "compose-lint"), "check", "--fail-on", "high", str(FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_it_has_every_part_of_an_instance() -> None:
    by_profile: dict[str, set[str]] = {}
    for name, service in SERVICES.items():
        for profile in service.get("profiles", [""]):
            by_profile.setdefault(profile, set()).add(name)

    assert by_profile == {
        "": {
            "migrate", "setup", "web", "worker", "control", "probes", "beat", "pipelines", "spark-master",
            "spark-worker", "broker", "postgres",
        },
        "development": {"setup-development", "pipelines-development"},
        "proxy": {"proxy"}, "observability": {"prometheus"}, "kafka": {"kafka"}, "s3": {"s3"},
    }  # fmt: skip


def test_what_starts_without_a_profile_needs_nothing_of_one() -> None:
    for name, service in SERVICES.items():
        needed = set(service.get("depends_on", {}))
        profiles = set(service.get("profiles", []))
        assert needed <= {n for n, s in SERVICES.items() if set(s.get("profiles", [])) <= profiles}, name


@service_params()
def test_a_service_runs_with_as_little_as_it_can(name: str) -> None:
    service = SERVICES[name]

    uid = int(service["user"].split(":")[0])
    assert uid == 10001 if name in OURS else uid > 0
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]
    assert service["mem_limit"]
    assert service["pids_limit"]
    assert not service.get("privileged")


@service_params()
def test_an_image_has_a_version(name: str) -> None:
    tag = SERVICES[name]["image"].rpartition(":")[2]

    assert re.fullmatch(r"v?\d+\.\d+(\.\d+)?(-\w+)?", tag)


@service_params(sorted(set(SERVICES) - ONE_SHOT))
def test_a_lasting_service_says_whether_it_is_well(name: str) -> None:
    service = SERVICES[name]

    assert service["healthcheck"]["test"][0] in {"CMD", "CMD-SHELL"}
    assert service["restart"] == "unless-stopped"


@service_params(sorted(ONE_SHOT))
def test_a_one_shot_is_not_started_again(name: str) -> None:
    assert SERVICES[name]["restart"] == "no"


def test_a_published_port_listens_on_the_loopback_address_only() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]

    assert published
    assert all(
        re.match(r"(127\.0\.0\.1|\$\{REPRISE_PROXY_ADDRESS:-127\.0\.0\.1\}):", port) for port in published
    )
    assert COMPOSE["networks"]["inside"] == COMPOSE["networks"]["spark"] == {"internal": True}


def test_spark_runs_apart_from_the_consoles_secrets_and_tables() -> None:
    """People's code runs in an executor, in the driver and beside it; whoever reaches a Spark master may have it run
    code."""
    for name in APART:
        service = SERVICES[name]
        assert "inside" not in service["networks"]
        assert set(service.get("secrets", [])) <= APART[name]
        assert not [v for v in service.get("volumes", []) if v.startswith("home:")]
        variables = set(service["environment"]) & {
            f"REPRISE_{name}_FILE" for name in ("SECRET_KEY", "DATABASE_URL", "BROKER_URL")
        }
        assert variables == set()
    assert set(SERVICES["pipelines"]["networks"]) & {"inside"} == set()
    on_spark = {name for name, service in SERVICES.items() if "spark" in service.get("networks", [])}
    assert on_spark == {"pipelines", "spark-master", "spark-worker", "kafka", "s3"}


def test_development_shares_no_volume_network_secret_or_spark_with_production() -> None:
    """Its code is in one server and in no executor of the other: what both mounted, reached or knew would join them."""
    own = SERVICES["pipelines-development"]
    for name in ("pipelines", "spark-master", "spark-worker"):
        other = SERVICES[name]
        assert set(own["networks"]) & set(other["networks"]) == set()
        assert set(own["secrets"]) & set(other.get("secrets", [])) == set()
        assert {v.split(":")[0] for v in own["volumes"]} & {
            v.split(":")[0] for v in other.get("volumes", [])
        } == set()
    environment = own["environment"]
    assert (environment["REPRISE_ENVIRONMENTS"], environment["REPRISE_SPARK_MASTER"]) == (
        "development",
        "local[2]",
    )
    assert COMPOSE["networks"]["api-development"] == {"internal": True}
    beside = {name for name, s in SERVICES.items() if set(s.get("networks", [])) & set(own["networks"])}
    assert beside == {"pipelines-development", "setup-development", "web", *WORKERS}


def test_the_console_opens_developments_data_at_the_same_path_and_has_its_token() -> None:
    own = SERVICES["pipelines-development"]
    data = {volume for volume in own["volumes"] if not volume.startswith("pipelines-")}
    for name in ("web", *WORKERS):
        assert data <= set(SERVICES[name]["volumes"])
        assert "pipelines_development_token" in SERVICES[name]["secrets"]
    told = SERVICES["setup-development"]["environment"]
    assert told["REPRISE_PIPELINES_URL"] == "http://pipelines-development:8100"
    assert told["REPRISE_PIPELINES_ENVIRONMENT"] == own["environment"]["REPRISE_ENVIRONMENTS"]
    assert told["REPRISE_PIPELINES_TOKEN_FILE"] == own["environment"]["REPRISE_PIPELINES_TOKEN_FILE"]
    homes = re.search(r"for home in (.*?);", STAGE["app"])
    assert homes
    assert own["environment"]["REPRISE_HOME"] in homes[1].split()


def test_the_driver_finds_its_master_and_the_executors_find_the_driver_and_the_same_files() -> None:
    driver, worker = SERVICES["pipelines"], SERVICES["spark-worker"]
    master = SERVICES["spark-master"]["command"]
    address = f"spark://spark-master:{master[master.index('--port') + 1]}"

    assert driver["environment"]["REPRISE_SPARK_MASTER"] == f"${{REPRISE_SPARK_MASTER:-{address}}}"
    assert worker["command"][-1] == address
    assert driver["environment"]["REPRISE_SPARK_DRIVER_HOST"] == "pipelines"
    assert set(worker["volumes"]) == set(driver["volumes"]) & set(SERVICES["worker"]["volumes"])
    assert driver["depends_on"]["spark-worker"] == {"condition": "service_healthy"}
    assert driver["image"] == worker["image"]


def test_whoever_opens_checkpoints_may_be_given_the_keys_of_s3_and_nobody_else() -> None:
    having = {name for name, service in SERVICES.items() if "aws_credentials" in service.get("secrets", [])}

    assert having == {"web", *WORKERS}
    assert all(
        SERVICES[n]["environment"]["AWS_SHARED_CREDENTIALS_FILE"] == "/run/secrets/aws_credentials"
        for n in having
    )
    assert "spark_conf" in SERVICES["pipelines"]["secrets"]


def test_a_probe_asks_what_it_is_about() -> None:
    assert "/readyz" in SERVICES["web"]["healthcheck"]["test"][-1]
    for part in (*WORKERS, "beat"):
        assert SERVICES[part]["healthcheck"]["test"] == ["CMD", "python", "-m", "console.life", part]


def test_every_secret_that_is_needed_is_explained_to_the_operator() -> None:
    guide = (ROOT / "docs" / "operators-guide.md").read_text()

    assert [s["file"] for s in COMPOSE["secrets"].values() if Path(s["file"]).name not in guide] == []


def test_no_secret_stands_in_the_file() -> None:
    environments = [service.get("environment", {}) for service in SERVICES.values()]
    secret = [
        k for e in environments for k in e if re.search(r"PASSWORD|SECRET|TOKEN|_URL_FILE|DATABASE_URL", k)
    ]

    assert secret
    assert [name for name in secret if not name.endswith("_FILE")] == []
    for service in SERVICES.values():
        assert set(service.get("secrets", [])) <= set(COMPOSE["secrets"])
    assert {tuple(secret) for secret in COMPOSE["secrets"].values()} == {("file",)}


def test_everything_waits_for_the_tables_and_for_what_it_needs() -> None:
    for name in ("web", *WORKERS, "beat", "setup"):
        assert SERVICES[name]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
    for name in ("web", *WORKERS, "beat"):
        assert SERVICES[name]["depends_on"]["broker"] == {"condition": "service_healthy"}
    assert SERVICES["migrate"]["depends_on"]["postgres"] == {"condition": "service_healthy"}


def test_who_asks_the_api_server_reaches_it_and_has_its_token_and_there_is_one_beat() -> None:
    asking = {n for n, s in SERVICES.items() if "api" in s.get("networks", []) and n != "pipelines"}
    assert asking == {"web", "setup", *WORKERS}
    assert {n for n in asking if "pipelines_token" in SERVICES[n]["secrets"]} == asking
    assert COMPOSE["networks"]["api"] == {"internal": True}
    assert "replicas" not in SERVICES["beat"].get("deploy", {})


def test_the_broker_loses_nothing_and_drops_nothing() -> None:
    command = SERVICES["broker"]["command"]

    assert command[command.index("--appendonly") + 1] == "yes"
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"


@pytest.mark.parametrize("name", sorted(WORKERS))
def test_a_worker_serves_the_queues_that_are_its_own(name: str) -> None:
    words = SERVICES[name].get("command")
    if words is None:
        said = re.search(r"^CMD (\[.*?\])", STAGE["worker"].replace("\\\n", " "), flags=re.MULTILINE)
        assert said
        words = json.loads(said[1])

    assert words == ["celery", "-A", "console.celery", *workers.worker_command(name)]


def test_every_queue_has_one_worker() -> None:
    routed = {route["queue"] for route in settings.CELERY_TASK_ROUTES.values()}
    served = [queue for worker in WORKERS.values() for queue in worker.queues]

    assert sorted(served) == sorted({*routed, settings.CELERY_TASK_DEFAULT_QUEUE})


@service_params(OURS)
def test_the_commands_are_those_that_exist(name: str) -> None:
    command = SERVICES[name].get("command") or []
    if command[:2] == ["python", "-m"]:
        assert (ROOT / (command[2].replace(".", "/") + ".py")).exists()
    else:
        assert command[:3] in ([], ["celery", "-A", "console.celery"]) or command[0] == "spark-class"


@pytest.mark.parametrize("target", sorted({s["build"]["target"] for s in SERVICES.values() if "build" in s}))
def test_an_image_ends_as_an_ordinary_user_and_holds_locked_packages_only(target: str) -> None:
    stage = STAGE[target]
    users = re.findall(r"^USER (\S+)", STAGE["app"] + stage, flags=re.MULTILINE)

    assert users[-1] == "10001:10001"
    assert stage.startswith("app AS")
    assert f"COPY --from=wheels-{'spark' if target == 'pipelines' else 'web'} /opt/venv /opt/venv" in stage


def test_every_install_in_the_image_checks_hashes() -> None:
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    installs = [
        part
        for line in text.splitlines()
        for part in line.split("&&")
        if re.search(r"pip (install|sync)", part)
    ]

    assert len(installs) == 3
    assert all("--require-hashes" in shlex.split(part) for part in installs)
    assert not re.search(r"^ADD |curl|wget|:latest", text, flags=re.MULTILINE)


def import_at_start(module: Path) -> Iterator[str]:
    """The names that a module imports when it is imported itself: not those within functions, nor for types alone."""
    waiting: list[ast.AST] = list(ast.parse(module.read_bytes()).body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, (ast.Try, ast.With, ast.ClassDef)):
            waiting.extend(node.body)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test):
            waiting.extend(node.body + node.orelse)


def list_imported(entries: Iterable[str]) -> dict[str, str]:
    """Each package of others that the modules import at their start, and the first of ours that does."""
    ours: set[str] = set()
    others: dict[str, str] = {}
    waiting = [(entry, "") for entry in entries]
    while waiting:
        name, importer = waiting.pop()
        top = name.split(".")[0]
        if not (ROOT / top).is_dir() and not (ROOT / f"{top}.py").is_file():
            others.setdefault(top, importer)
            continue
        place = ROOT.joinpath(*name.split("."))
        file = next((f for f in (place.with_suffix(".py"), place / "__init__.py") if f.is_file()), None)
        if file is None or name in ours:
            continue
        ours.add(name)
        waiting.append((name.rpartition(".")[0] or name, name))
        waiting += [(imported, name) for imported in import_at_start(file)]
    return {name: module for name, module in others.items() if name not in sys.stdlib_module_names}


def test_what_the_console_s_processes_import_is_in_their_image() -> None:
    commands = sorted((ROOT / "recovery/management/commands").glob("[a-z]*.py"))
    of_apart = {"serve_pipelines"}  # runs in the image that has Spark
    entries = [
        "console.wsgi", "console.celery", "console.gunicorn", "console.life", "console.settings", "console.urls",
        "console.supervisor.prepare", "console.supervisor.stages", "recovery.workflow.tasks", "recovery.models",
        *(f"recovery.management.commands.{path.stem}" for path in commands if path.stem not in of_apart),
    ]  # fmt: skip
    locked = re.findall(
        r"^([a-z0-9][\w.-]*)(?:\[\w+\])?==", (ROOT / "requirements/web.txt").read_text(), re.MULTILINE
    )
    names = {re.sub(r"[-_.]+", "-", name) for name in locked}
    distributions = packages_distributions()

    missing = {
        package: module
        for package, module in list_imported(entries).items()
        if not {re.sub(r"[-_.]+", "-", d.lower()) for d in distributions.get(package, [])} & names
    }

    assert missing == {}


def test_the_build_sees_what_it_copies_and_nothing_else() -> None:
    lines = (ROOT / ".dockerignore").read_text().split()
    copied = set(
        re.findall(r"^COPY (?!--from)(.+) \S+$", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    )
    needed = {path.split("/")[0] for line in copied for path in line.split()}

    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == needed


def test_setting_up_makes_no_demo_people_and_no_open_environment() -> None:
    setup = SERVICES["setup"]

    assert setup["command"][-1] == "instance"
    assert setup["environment"]["REPRISE_ADMIN_PASSWORD_FILE"] == "/run/secrets/admin_password"
    assert (
        setup["environment"]["REPRISE_PIPELINES_ENVIRONMENT"]
        == "${REPRISE_PIPELINES_ENVIRONMENT:-production}"
    )
    having = {name for name, service in SERVICES.items() if "admin_password" in service.get("secrets", [])}
    assert having == {"setup"}
    assert "people.json" not in FILE.read_text()
