"""What only looks like a number, in text and files of others, ends nothing."""

import json
from pathlib import Path

import pytest
from django.utils import timezone

from recovery.blaming import find_code_failure, read_exception
from recovery.checkpoints import inspect_checkpoint
from recovery.contracts.diagnosis import ChainedError
from recovery.diagnosis import diagnose_failure
from recovery.people.roles import Actor, Role
from recovery.pipelines.lists import current_version, is_current
from recovery.streams.standing import read_progress
from tests.checkpoint_builder import Built, put
from tests.unit.pipelines.stub import Answer
from tests.unit.pipelines.test_client import client_of, in_turn

ODD = ["\u00b2", "9" * 5000]
FILE = "/Users/ann/orders.py"


@pytest.mark.parametrize("number", ODD, ids=["superscript", "5000 digits"])
def test_of_an_error_the_line_and_the_attempts_are_not_known(number: str) -> None:
    stack = [{"file_name": FILE, "line_number": number}]
    traced = f'File "{FILE}", line {number}, in f\nKeyError: 1'
    for error in (
        read_exception({"message": "KeyError: 1", "stack": stack}),
        ChainedError(message="KeyError: 1", file=FILE, line=number),
    ):
        failure = find_code_failure([error])
        assert failure is not None
        assert failure.line is None
    find_code_failure([ChainedError(message=traced)])
    causes = f"Flow 'a' has FAILED more than {number} times and will not be restarted. [STREAM_FAILED]"
    assert diagnose_failure(causes=causes).attempts is None


def test_of_a_checkpoint_a_file_of_another_name_is_passed_over(tmp_path: Path) -> None:
    root = Built(tmp_path / "orders", batches=3).write().root
    before = read_progress(str(root)), inspect_checkpoint(str(root)).findings
    for folder in ("offsets", "commits"):
        (root / folder / ODD[0]).write_text("no log")
    assert (read_progress(str(root)), inspect_checkpoint(str(root)).findings) == before


def test_of_an_answer_the_time_to_wait_is_a_little_longer_each_time() -> None:
    late = Answer(503, headers={"Retry-After": ODD[0]})
    with client_of(in_turn(late, Answer(body={"pipeline_id": "p1"}))) as (client, stub):
        assert client.get_pipeline("p1") == {"pipeline_id": "p1"}
    assert len(stub.asked) == 2


def test_of_a_header_partitions_without_a_sensible_number_are_not_compared(tmp_path: Path) -> None:
    root = Built(tmp_path / "orders", batches=3).write().root
    for file in (root / "offsets").glob("[0-9]*"):
        header, conf = json.loads((lines := file.read_text().split("\n"))[1]), "spark.sql.shuffle.partitions"
        header["conf"][conf] = ODD[1]
        put(file, "\n".join([lines[0], json.dumps(header), *lines[2:]]))
    codes = {f.code for f in inspect_checkpoint(str(root)).findings}
    assert not {"HEADER_PARTITIONS_MORE", "HEADER_PARTITIONS_FEWER"} & codes


@pytest.mark.django_db
def test_of_an_address_a_version_without_end_is_none_that_is_current() -> None:
    someone, now = Actor("ada", Role.ADMIN), timezone.now()
    shown = str(current_version(someone, now))
    number, rest = shown.split("-", 1)
    assert is_current(shown, someone, now)
    assert not is_current(f"{'0' * 5000}{number}-{rest}", someone, now)
