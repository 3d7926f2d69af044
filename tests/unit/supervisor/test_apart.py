"""Servers of their own for some environments: what they are started with, and what they never get of each other's."""

import socket
from pathlib import Path

import pytest

from console.supervisor import instance
from console.supervisor.apart import OwnServer, environment_of, read_own_servers, settings_of_first
from console.supervisor.bootstrap import CannotStart
from console.supervisor.home import is_known, read_env
from console.workers import WORKERS
from tests.unit.supervisor.conftest import asked


def test_environments_are_named_with_or_without_a_folder(tmp_path: Path) -> None:
    (data := tmp_path / "data").mkdir()
    home = tmp_path / "home"
    assert read_own_servers("", home) == ()
    assert read_own_servers(f" production={data}, staging ", home) == (
        OwnServer("production", home / "environments/production", data),
        OwnServer("staging", home / "environments/staging"),
    )


@pytest.mark.parametrize(
    "text",
    [
        "development",
        "prod",
        "production,production",
        "production=",
        "production=data",
        "production=/not/there",
    ],
)
def test_what_names_no_server_ends_the_start(tmp_path: Path, text: str) -> None:
    with pytest.raises(CannotStart):
        read_own_servers(text, tmp_path)


def test_the_first_server_runs_the_rest_and_sees_nothing_of_the_others(tmp_path: Path) -> None:
    data, ours = tmp_path / "data/production", tmp_path / "data"
    own = [OwnServer("production", tmp_path / "environments/production", data)]
    assert settings_of_first(tmp_path, [], [ours]) == {}
    for roots, kept in (
        ([], ""),
        ([ours, data, data / "deep"], str(ours)),
        ([data], str(tmp_path / "storage")),
    ):
        assert settings_of_first(tmp_path, own, roots) == {
            "REPRISE_ENVIRONMENTS": "development,staging",
            "REPRISE_HIDDEN_FOLDERS": str(data),
            "REPRISE_DATA_ROOTS": kept,
        }


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_server_of_its_own_gets_no_secret_and_no_folder_of_another(tmp_path: Path, is_closed: bool) -> None:
    own = [
        OwnServer("production", tmp_path / "environments/production", Path("/srv/production")),
        OwnServer("staging", tmp_path / "environments/staging"),
    ]
    caller = {
        "PATH": "/bin", "REPRISE_SPARK_MASTER": "local[4]", "REPRISE_CONFINEMENT": "required",
        "REPRISE_SPARK_CONF": "spark.hadoop.fs.s3a.secret.key k", "REPRISE_SPARK_CONF_FILE": "/etc/r/spark_conf",
        "REPRISE_SPARK_REMOTES_FILE": "/etc/r/remotes", "REPRISE_CODE_VARIABLES": "AWS_SECRET_ACCESS_KEY",
        "REPRISE_PIPELINES_DATABASE_URL": "postgresql://of-the-first", "REPRISE_PIPELINES_TOKEN_FILE": "/etc/r/token",
        "REPRISE_DATA_ROOTS": "/srv", "REPRISE_HIDDEN_FOLDERS": "/x", "REPRISE_SPARK_PORT": "15002",
    }  # fmt: skip
    production, staging = (
        environment_of(server, own, caller, home=tmp_path, is_closed=is_closed) for server in own
    )
    common = {"PATH": "/bin", "REPRISE_SPARK_MASTER": "local[4]", "REPRISE_CONFINEMENT": "required"}
    files = "/etc/r/token,/etc/r/spark_conf,/etc/r/remotes"  # hidden from code, as by the first server
    assert production == common | {
        "REPRISE_HOME": str(own[0].home),
        "REPRISE_ENVIRONMENTS": "production",
        "REPRISE_HIDDEN_FOLDERS": f"{tmp_path},{files}",
        "REPRISE_DATA_ROOTS": "/srv/production",
    }
    assert staging == common | {
        "REPRISE_HOME": str(own[1].home),
        "REPRISE_ENVIRONMENTS": "staging",
        "REPRISE_HIDDEN_FOLDERS": f"{tmp_path},/srv/production,{files}",
        "REPRISE_DATA_ROOTS": f"{own[1].home}/storage" if is_closed else "",
    }


def test_a_folder_that_settings_could_not_list_ends_the_start(tmp_path: Path) -> None:
    own = [OwnServer("production", tmp_path, Path("/srv/a,b"))]
    with pytest.raises(CannotStart):
        settings_of_first(tmp_path, own, [])


def test_they_are_children_beside_the_first_and_keep_their_ports(
    home: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRISE_OWN_DRIVERS", "production,staging")
    made = instance.configure_instance(asked(home), listener)
    children = {child.name: child for child in instance.list_children(made)}

    assert list(children) == [
        "broker", "pipelines", "pipelines-production", "pipelines-staging", "web", *WORKERS, "beat",
    ]  # fmt: skip
    first, own = children["pipelines"], children["pipelines-production"]
    assert first.environment["REPRISE_ENVIRONMENTS"] == "development"
    assert "REPRISE_ENVIRONMENTS" not in children["web"].environment
    place = home / "environments/production"
    assert own.environment["REPRISE_HOME"] == str(place)
    assert own.command[-4:] == [
        "--port", str(made.own_ports["production"]), "--token-file", str(place / "pipelines.token"),
    ]  # fmt: skip
    assert read_env(home / "instance.env")["REPRISE_OWN_DRIVERS"] == "production,staging"
    assert is_known(home / "environments")

    (home / "supervisor.json").write_text(
        f'{{"own_ports": {{"production": {made.own_ports["production"]}}}}}'
    )
    again = instance.configure_instance(asked(home), listener)
    assert again.own_ports["production"] == made.own_ports["production"]
