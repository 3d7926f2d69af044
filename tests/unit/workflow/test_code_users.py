"""A plan changes its own flow's code alone, and none that another environment runs by rules that are not weaker."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recovery import reach
from recovery.checkpoints.storage import Store
from recovery.errors import Denied, NotFound, Refused
from recovery.models import Flow, Pipeline, Stream, Workspace
from recovery.people.roles import Actor, Grant, Role
from recovery.streams.actions import StreamDetails, adopt_stream
from recovery.streams.candidates import list_candidates
from recovery.streams.files import program_files, read_file
from recovery.workflow.code_users import CodeUser, find_code_users, require_own_code
from recovery.workflow.places import checkpoint_of, sink_of_stream
from tests.checkpoint_builder import Built
from tests.refusals import refused
from tests.unit.workflow.rows import flow

pytestmark = pytest.mark.django_db
ADMIN = Actor("ada", Role.ADMIN)
OF_DEVELOPMENT = Actor("dave", Role.NONE, elsewhere={"development": Grant(Role.RESPONDER)})
Adopt = Callable[..., Stream]


@pytest.fixture(autouse=True)
def home(settings: Any, tmp_path: Path) -> None:
    settings.REPRISE_HOME = tmp_path / "home"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """`prod.py` and `dev.py` share `shop/common.py`; each has a module that only it imports."""
    app = tmp_path / "data" / "app"
    for name, text in (
        ("prod.py", "import shop.common, shop.prod_only\n"),
        ("dev.py", "import shop.common\nimport shop.dev_only\n"),
        ("shop/__init__.py", ""),
        ("shop/common.py", ""),
        ("shop/prod_only.py", ""),
        ("shop/dev_only.py", ""),
        ("shop/nobodys.py", ""),
    ):
        (app / name).parent.mkdir(parents=True, exist_ok=True)
        (app / name).write_text(text)
    return app


@pytest.fixture
def adopt(tmp_path: Path, code: Path) -> Adopt:
    def adopt(program: str, environment: str = "development", by: Actor = ADMIN, **said: Any) -> Stream:
        place = tmp_path / "data" / f"{environment}-{program.replace('/', '-')}"
        Workspace.objects.get_or_create(name=environment, kind="streams", environment=environment)
        query = f"{len(Stream.objects.all()):08d}-0000-0000-0000-000000000000"
        return adopt_stream(
            checkpoint=str(Built(place, query_id=query).write().root),
            said=StreamDetails(program=str(code / program), workspace=environment, **said),
            by=by,
        )

    return adopt


def refusal_of(stream: Stream, *paths: Path) -> str:
    try:
        require_own_code(stream.pipeline.flows.get(), [str(path) for path in paths])
    except Refused as refusal:
        return refusal.code
    return ""


@pytest.mark.parametrize(
    ("environment", "path", "code_of_refusal"),
    [
        ("development", "dev.py", ""),
        ("development", "shop/dev_only.py", ""),
        ("development", "shop/common.py", "code_shared"),
        ("development", "shop/prod_only.py", "not_own_code"),
        ("development", "shop/nobodys.py", "not_own_code"),
        ("development", "prod.py", "not_own_code"),
        ("production", "shop/common.py", ""),
        ("staging", "shop/common.py", "code_shared"),
    ],
)
def test_a_plan_changes_its_own_files_and_none_that_stricter_environments_run(
    environment: str, path: str, code_of_refusal: str, adopt: Adopt, code: Path
) -> None:
    adopt("prod.py", "production")
    assert refusal_of(adopt("dev.py", environment), code / path) == code_of_refusal


def test_streams_of_one_environment_change_what_they_share(adopt: Adopt, code: Path) -> None:
    adopt("prod.py")
    assert refusal_of(adopt("dev.py"), code / "shop/common.py") == ""


def test_what_a_notebook_runs_in_its_place_is_its_code(adopt: Adopt, code: Path) -> None:
    (code / "prod.py").write_text("# MAGIC %run ./shop/prod_only\n")
    (code / "shop/prod_only.py").write_text("# MAGIC %run ./common\n")
    adopt("prod.py", "production")
    stream = adopt("dev.py")
    assert refusal_of(stream, code / "shop/common.py") == "code_shared"
    (code / "shop/prod_only.py").write_text("")
    assert refusal_of(stream, code / "shop/common.py") == ""


def test_a_program_that_cannot_be_read_may_hold_the_file(adopt: Adopt, code: Path) -> None:
    adopt("prod.py", "production")
    stream = adopt("dev.py")
    (code / "prod.py").unlink()
    assert refusal_of(stream, code / "shop/common.py") == "code_shared"


def test_another_name_of_the_same_file_is_no_way_round(adopt: Adopt, code: Path) -> None:
    adopt("prod.py", "production")
    (code / "linked.py").symlink_to(code / "shop/common.py")
    (code / "dev.py").write_text("import linked\n")
    assert refusal_of(adopt("dev.py"), code / "linked.py") in ("code_shared", "not_own_code")


SPECS = [
    ({"root_path": "/Shared/app"}, True),
    ({"root_path": "/Workspace/Shared/app/"}, True),
    ({"root_path": "/Shared/other"}, False),
    ({"root_path": "/"}, False),
    ({"libraries": [{"file": {"path": "/Shared/app/common.py"}}]}, True),
    ({"libraries": [{"glob": {"include": "/Shared/app/**"}}]}, True),
    ({"libraries": [{"glob": {"include": "/Shared/app/sub/**"}}]}, False),
    ({"libraries": [{"glob": {"include": "/Shared/*/common.py"}}]}, True),
    ({"libraries": [{"file": {"path": "/Shared/app/main.py"}}]}, True),
    ({"libraries": [{"notebook": {"path": "/Shared/main"}}]}, True),
    ({"libraries": [{"notebook": {"path": "/main"}}]}, False),
    ({"libraries": [{"glob": {"include": "/Shared/*/main.py"}}]}, True),
    ({"libraries": [{"file": {"path": "/Shared/app/main.py"}}], "root_path": "/Shared/app/sub"}, True),
    ({"libraries": [{"file": {"path": "/Shared/app/sub/main.py"}}], "root_path": "/Shared/app/sub"}, False),
    ({"libraries": [{"file": {"path": "/Shared/app/sub/main.py"}}, "what", {"jar": "x"}]}, False),
    ({}, False),
]


@pytest.mark.parametrize(("spec", "is_shared"), SPECS)
def test_a_workspace_file_of_a_pipeline_of_production_is_not_changed_by_a_plan_of_development(
    spec: dict[str, Any], is_shared: bool
) -> None:
    own, other = flow(), flow(environment="production")
    Pipeline.objects.filter(pk=other.pipeline_id).update(spec=spec)
    path = "/Shared/app/common.py"
    assert list(find_code_users([path], but=own.pipeline)) == (
        [(path, CodeUser(other.pipeline.name, "production"))] if is_shared else []
    )
    if is_shared:
        with pytest.raises(Refused) as refusal:
            require_own_code(own, [path])
        assert refusal.value.code == "code_shared"
    require_own_code(Flow.objects.get(pk=other.pk), [path])


def test_a_second_workspace_at_the_same_address_holds_the_same_files() -> None:
    own, other = flow(), flow(environment="production")
    again = Workspace.objects.create(name="prod", url=own.pipeline.workspace.url, token_ref="env:NOTHING")
    spec = {"root_path": "/Shared/app"}
    Pipeline.objects.filter(pk=other.pipeline_id).update(spec=spec, workspace=again)
    path = "/Shared/app/common.py"
    assert [p for p, _ in find_code_users([path], but=own.pipeline)] == [path]
    Workspace.objects.filter(pk=again.pk).update(url="https://elsewhere")
    assert not list(find_code_users([path], but=own.pipeline))


def test_pipelines_code_is_no_program_of_a_stream(adopt: Adopt, settings: Any, code: Path) -> None:
    program = settings.REPRISE_HOME / "workspace" / "shop" / "orders.py"
    program.parent.mkdir(parents=True)
    program.write_text("x = 1\n")
    (code / "orders.py").symlink_to(program)
    for path in (str(program), "orders.py"):
        with pytest.raises(Refused) as refusal:
            adopt(path)
        assert refusal.value.code == "pipelines_code"


@pytest.mark.parametrize("place", ["sink", "checkpoint"])
def test_what_a_stream_out_of_sight_reads_and_writes_is_not_named_by_another(
    place: str, adopt: Adopt, tmp_path: Path
) -> None:
    (tmp_path / "data" / "table" / "_delta_log").mkdir(parents=True)
    theirs = adopt("prod.py", "production", sink=str(tmp_path / "data" / "table"))
    Workspace.objects.get_or_create(name="development", kind="streams", environment="development")
    with pytest.raises((Refused, Denied, NotFound)) as refusal:
        adopt("dev.py", by=OF_DEVELOPMENT, sink=getattr(theirs, place))
    assert refusal.value.code == "storage_root"


def test_a_link_to_what_is_no_python_is_not_read_as_a_program(code: Path) -> None:
    (code / "secret.json").write_text("{}")
    (code / "shop" / "dev_only.py").unlink()
    (code / "shop" / "dev_only.py").symlink_to(code / "secret.json")
    (code / "main.py").symlink_to(code / "secret.json")
    for read in (lambda: program_files(str(code / "main.py")), lambda: read_file(str(code / "main.py"))):
        with pytest.raises(Refused) as refusal:
            read()
        assert refusal.value.code == "no_python_file"
    assert str(code / "shop" / "dev_only.py") not in program_files(str(code / "dev.py"))


def test_a_look_into_a_folder_above_finds_nothing_that_is_out_of_sight(adopt: Adopt, tmp_path: Path) -> None:
    theirs = adopt("prod.py", "production")
    Workspace.objects.get_or_create(name="development", kind="streams", environment="development")
    data = tmp_path / "data"
    mine = Built(data / "mine", query_id="10000000-0000-0000-0000-000000000000").write().root
    (data / "linked").symlink_to(theirs.checkpoint)
    seen = list_candidates(roots=[str(data)], said=StreamDetails(workspace="development"), by=OF_DEVELOPMENT)
    assert [c.place for c in seen.candidates] == [str(mine)]
    assert seen.scan.problems == ()
    named = list_candidates(roots=[str(data)], said=StreamDetails(workspace="development"), by=ADMIN)
    assert len(named.candidates) == 2


def test_a_link_below_a_typed_place_leads_to_nothing_that_is_out_of_sight(
    adopt: Adopt, tmp_path: Path
) -> None:
    theirs = adopt("prod.py", "production")
    Workspace.objects.update(roots=[str(tmp_path)], real_roots={str(tmp_path): str(tmp_path)})
    mine = tmp_path / "data" / "mine"
    mine.mkdir()
    with reach.reading_typed(str(mine), OF_DEVELOPMENT):
        (mine / "offsets").symlink_to(Path(theirs.checkpoint) / "offsets")
        for read in (
            lambda: Store.open(str(mine)).entries("offsets"),
            lambda: Store.open(str(mine / "offsets")),
        ):
            with refused("storage_root"):
                read()


@pytest.mark.parametrize(("place", "levels"), [("checkpoint", 0), ("sink", 0), ("sink", 1)])
def test_a_place_that_became_a_link_to_another_environment_s_is_not_used(
    place: str, levels: int, adopt: Adopt, tmp_path: Path
) -> None:
    for above in ("mine", "theirs"):
        (tmp_path / above / "table" / "_delta_log").mkdir(parents=True)
    theirs = adopt("prod.py", "production", sink=str(tmp_path / "theirs" / "table"))
    mine = adopt("dev.py", sink=str(tmp_path / "mine" / "table"))
    use, flow = {"checkpoint": checkpoint_of, "sink": sink_of_stream}[place], mine.pipeline.flows.get()
    assert use(flow) == getattr(mine, place)
    old, new = (Path(getattr(stream, place)) for stream in (mine, theirs))
    for _ in range(levels):
        old, new = old.parent, new.parent
    old.rename(tmp_path / "aside")
    old.symlink_to(tmp_path / "aside")
    assert use(flow) == getattr(mine, place)
    old.unlink()
    old.symlink_to(new)
    with refused("place_moved"):
        use(flow)


def test_a_file_in_no_folder_may_run_what_is_beside_it() -> None:
    own, other = flow(), flow(environment="production")
    Pipeline.objects.filter(pk=other.pipeline_id).update(
        spec={"root_path": "/", "libraries": [{"file": {"path": "/main.py"}}]}
    )
    paths = ["/beside.py", "/folder/other.py"]
    assert [path for path, _ in find_code_users(paths, but=own.pipeline)] == ["/beside.py"]
