"""`diagnose --error` and `inspect --error`: a stream of one's own, by a text alone or with its checkpoint."""

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command

from recovery.contracts import codec
from recovery.diagnosis import diagnose_failure
from tests.checkpoint_builder import Built, put
from tests.unit.diagnosis.messages import INCIDENT
from tests.unit.diagnosis.public_texts import CAPTURED, IDS, QUERY

LOST = "Partition a-0's offset was changed from 9 to 3, some data may have been missed."


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REPRISE_TOKEN", raising=False)
    monkeypatch.delenv("REPRISE_TOKEN_FILE", raising=False)


@pytest.fixture
def text(tmp_path: Path) -> str:
    return written(tmp_path, LOST)


def written(folder: Path, reason: str, query: str = QUERY) -> str:
    file = folder / f"driver-{abs(hash(reason + query))}.log"
    file.write_text(CAPTURED.format(ids=IDS.replace(QUERY, query), reason=reason))
    return str(file)


def run(*words: str) -> tuple[int, str]:
    out = io.StringIO()
    try:
        call_command(*words, stdout=out, stderr=out)
    except SystemExit as end:
        return int(end.code or 0), out.getvalue()
    return 0, out.getvalue()


def told(*words: str) -> tuple[int, Any]:
    code, out = run(*words, "--json")
    return code, json.loads(out.splitlines()[-1])


def query_of(checkpoint: Path) -> str:
    return str(json.loads((checkpoint / "metadata").read_text())["id"])


def test_a_text_alone_is_diagnosed_without_token_or_instance_in_the_shape_of_a_flow_s(text: str) -> None:
    code, found = told("diagnose", "--error", text)
    assert code == 1
    assert (found["pipeline"], found["flow"], found["checkpoint"], found["problem"]) == (
        None,
        None,
        None,
        None,
    )
    assert found["diagnosis"]["condition"] == "KAFKA_DATA_LOSS"
    assert set(found["diagnosis"]) == set(codec.to_json(diagnose_failure(causes=INCIDENT)))
    assert found["query_id"] == QUERY


def test_stdin_is_read_as_a_file_is(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(Path(text).read_bytes())))
    assert told("diagnose", "--error", "-") == told("diagnose", "--error", text)


def test_of_a_log_that_is_longer_than_the_bound_the_end_is_read(tmp_path: Path, text: str) -> None:
    log = tmp_path / "long.log"
    with log.open("w") as stream:
        for _ in range(40):
            stream.write("24/05/06 07:08:09 INFO X: nothing\n" * 20_000)
        stream.write(Path(text).read_text())
    assert log.stat().st_size > 25_000_000
    assert told("diagnose", "--error", str(log))[1]["diagnosis"]["condition"] == "KAFKA_DATA_LOSS"


def test_a_text_as_windows_writes_it_is_read(tmp_path: Path, text: str) -> None:
    wide = tmp_path / "wide.log"
    wide.write_bytes(Path(text).read_text().replace("\n", "\r\n").encode("utf-16"))
    assert told("diagnose", "--error", str(wide))[1]["diagnosis"]["condition"] == "KAFKA_DATA_LOSS"


def test_a_text_without_a_failure_is_bad_news_too_and_advises_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_text("all is well\n")
    code, found = told("diagnose", "--error", str(file))
    assert (code, found["diagnosis"]["condition"], found["diagnosis"]["do"]) == (
        1,
        "no-failure-recognised",
        [],
    )


@pytest.mark.parametrize(
    "words",
    [
        (), ("--checkpoint", "/c"), ("customers", "--checkpoint", "/c"), ("customers", "--error", "{text}"),
        ("--flow", "a", "--error", "{text}"), ("--error", "/nowhere/at/all"), ("--error", "{folder}"),
        ("--error", "{empty}"),
    ],
)  # fmt: skip
@pytest.mark.django_db
def test_wrong_use_ends_with_2(tmp_path: Path, text: str, words: tuple[str, ...]) -> None:
    (tmp_path / "empty").write_text(" \n")
    names = {"text": text, "folder": str(tmp_path), "empty": str(tmp_path / "empty")}
    code, found = told("diagnose", *(w.format(**names) for w in words))
    assert (code, found["error"]["code"]) == (2, "wrong_use")


def test_a_checkpoint_that_is_given_is_judged_with_the_text(tmp_path: Path) -> None:
    Built(tmp_path / "ck").write()
    put(tmp_path / "ck/sources/0/1", "v1")
    file = written(tmp_path, LOST, query_of(tmp_path / "ck"))
    code, found = told("diagnose", "--error", file, "--checkpoint", str(tmp_path / "ck"))
    assert code == 1
    assert found["checkpoint"]["query_id"] == found["query_id"]
    assert found["diagnosis"]["condition"] == "KAFKA_DATA_LOSS"
    assert "sources/0/1" in found["diagnosis"]["damaged"]


@pytest.mark.parametrize("place", ["nothing-there", "s3://no-such-bucket-at-all/x"])
def test_a_checkpoint_that_cannot_be_read_is_said_and_the_text_is_diagnosed_all_the_same(
    tmp_path: Path, text: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    where = place if "://" in place else str(tmp_path / place)
    code, found = told("diagnose", "--error", text, "--checkpoint", where)
    assert (code, found["diagnosis"]["condition"]) == (1, "KAFKA_DATA_LOSS")
    assert found["problem"] or found["checkpoint"]["format"] == "none"


def test_the_words_name_nothing_that_only_a_pipeline_has(text: str) -> None:
    _, out = run("diagnose", "--error", text)
    assert "bin/manage plan" not in out
    assert "pipeline" not in out
    assert f"Query id   {QUERY}" in out


@pytest.mark.django_db
def test_a_checkpoint_whose_program_fails_is_never_called_sound(tmp_path: Path) -> None:
    ck = tmp_path / "ck"
    Built(ck).write()
    assert run("inspect", str(ck))[1].startswith("Sound")
    for reason in (LOST, INCIDENT, "boom"):
        file = written(tmp_path, reason, query_of(ck))
        code, out = run("inspect", str(ck), "--error", file)
        assert code == 1
        assert "sound" not in out.splitlines()[0].lower()
    code, found = told("inspect", str(ck), "--error", written(tmp_path, LOST, query_of(ck)))
    assert found["diagnosis"]["condition"] == "KAFKA_DATA_LOSS"
    assert [f["code"] for f in found["findings"] if f["severity"] != "info"] == ["LAST_RUN_FAILED"]


@pytest.mark.django_db
def test_stateful_steps_that_the_text_names_are_compared_with_the_checkpoint_s(tmp_path: Path) -> None:
    ck = tmp_path / "ck"
    Built(ck).write()
    code, found = told("inspect", str(ck), "--error", written(tmp_path, INCIDENT, query_of(ck)))
    assert code == 1
    assert "STATE_OPERATOR_NOT_IN_CODE" in [f["code"] for f in found["findings"]]


@pytest.mark.django_db
@pytest.mark.parametrize(("reason", "query", "code"), [
    (LOST, QUERY, "ERROR_OF_ANOTHER_QUERY"),
    (None, QUERY, "NO_FAILURE_RECOGNISED"),
])  # fmt: skip
def test_a_text_that_says_nothing_of_this_checkpoint_leaves_open_whether_its_program_runs(
    tmp_path: Path, reason: str | None, query: str, code: str
) -> None:
    ck = tmp_path / "ck"
    Built(ck).write()
    file = written(tmp_path, reason, query) if reason else str(tmp_path / "hello")
    if reason is None:
        Path(file).write_text("hello")
    exit_code, out = run("inspect", str(ck), "--error", file)
    assert exit_code == 1
    assert out.startswith("No damage found.")
    assert code in [f["code"] for f in told("inspect", str(ck), "--error", file)[1]["findings"]]


@pytest.mark.django_db
def test_inspect_without_a_text_has_no_diagnosis_and_batches_take_none(tmp_path: Path, text: str) -> None:
    Built(tmp_path / "ck").write()
    assert told("inspect", str(tmp_path / "ck"))[1]["diagnosis"] is None
    code, found = told("inspect", str(tmp_path / "ck"), "--batch", "1", "--error", text)
    assert (code, found["error"]["code"]) == (2, "wrong_use")
