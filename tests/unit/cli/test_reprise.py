"""The command `reprise`: exit codes, wrong use as JSON, and stores that nothing here can open."""

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from recovery.checkpoints import remote
from recovery.cli import main as command
from recovery.cli.diagnosis_text import write_error
from tests.checkpoint_builder import Built, put
from tests.unit.diagnosis.public_texts import CAPTURED, IDS

REASON = "Partition a-0's offset was changed from 9 to 3, some data may have been missed."


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    try:
        code = command.main(words)
    except SystemExit as end:
        code = int(end.code or 0)
    return code, capsys.readouterr().out


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code, out = run(capsys, *words, "--json")
    return code, json.loads(out)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    Built(tmp_path / "orders").write()
    return tmp_path / "orders"


@pytest.fixture
def text() -> str:
    return CAPTURED.format(ids=IDS, reason=REASON)


def test_a_sound_checkpoint_ends_with_0_and_a_blocker_with_1(
    capsys: pytest.CaptureFixture[str], checkpoint: Path
) -> None:
    assert run(capsys, "inspect", str(checkpoint))[0] == 0
    put(checkpoint / "sources/0/1", "v1")
    code, found = told(capsys, "inspect", str(checkpoint))
    assert (code, found["flow"], found["last_committed"]) == (1, None, 2)


def test_an_error_from_stdin_is_diagnosed_with_the_checkpoint_beside_it(
    capsys: pytest.CaptureFixture[str], checkpoint: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in ((str(checkpoint),), ("--checkpoint", str(checkpoint))):
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
        code, found = told(capsys, "diagnose", "--error", "-", *words)
        assert (code, found["diagnosis"]["condition"]) == (1, "KAFKA_DATA_LOSS")
        assert found["checkpoint"]["location"] == str(checkpoint)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("recover",),
        ("inspect",),
        ("inspect", "/x", "--beside", "1"),
        ("inspect", "/x", "--batch", "one"),
        ("diagnose",),
        ("diagnose", "--error", "/nowhere"),
        ("diagnose", "--error", "-", "/x", "--checkpoint", "/x"),
        ("evidence",),
        ("evidence", "verify"),
        ("evidence", "verify", "x", "--key", "beef"),
    ],
)
def test_wrong_use_ends_with_2_and_is_json_where_that_was_asked_for(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert run(capsys, *words) == (2, "")
    code, found = told(capsys, *words)
    assert (code, found["error"]["code"]) == (2, "wrong_use")


def test_help_and_version_end_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (("--help",), ("--version",), ("inspect", "--help"), ("evidence", "verify", "--help")):
        code, out = run(capsys, *words)
        assert code == 0
        assert out


@pytest.mark.parametrize(
    ("url", "package"),
    [("s3a://b/x", "s3fs"), ("gs://b/x", "gcsfs"), ("abfss://c@a.dfs.core.windows.net/x", "adlfs")],
)
def test_a_store_whose_package_is_missing_is_refused_with_its_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, url: str, package: str
) -> None:
    def without(location: str, **_: Any) -> Any:
        raise ImportError(location)

    monkeypatch.setattr(remote, "find_spec", lambda _: None)
    monkeypatch.setattr(remote.fsspec.core, "url_to_fs", without)
    code, found = told(capsys, "inspect", url)
    assert (code, found["error"]["code"]) == (2, "storage_client")
    assert f"pip install {package}" in found["error"]["says"]


def test_the_error_ends_where_spark_prints_the_query() -> None:
    message = "[STREAM_FAILED] terminated with\texception\n=== Streaming Query ===\nLogical Plan:\nProject"
    assert write_error(message) == "[STREAM_FAILED] terminated with\\texception"
