"""Checksum files of the local file system beside the logs: what does not fit is said, and stops nothing."""

from pathlib import Path

import pytest

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.report import Outcome, Severity
from recovery.checkpoints.sidecars import is_of
from tests.checkpoint_builder import Built, checksums


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 5000])
def test_a_checksum_file_is_that_of_its_bytes_alone(size: int) -> None:
    data = bytes(at % 251 for at in range(size))
    assert is_of(data, checksums(data))
    assert not is_of(data + b"x", checksums(data))
    assert not is_of(data, checksums(data) + b"more")


@pytest.mark.parametrize(
    "sidecar", [b"", b"crc", b"CRC\0\0\0\2\0", b"crc\0\0\0\0\0", b"crc\0\xff\xff\xff\xff"]
)
def test_what_is_no_checksum_file_says_nothing(sidecar: bytes) -> None:
    with pytest.raises(Malformed):
        is_of(b"data", sidecar)


@pytest.mark.parametrize("name", ["metadata", "offsets/0", "commits/2", "sources/0/1"])
def test_a_file_that_somebody_edited_is_named_and_the_run_goes_on(tmp_path: Path, name: str) -> None:
    Built(tmp_path / "ck").write()
    assert [f.code for f in inspect_checkpoint(str(tmp_path / "ck")).findings] == []
    file = tmp_path / "ck" / name
    file.write_text(file.read_text().replace('"', ' "', 1))
    report = inspect_checkpoint(str(tmp_path / "ck"))
    assert [(f.code, f.severity, f.file) for f in report.findings] == [
        ("SIDECAR_DIFFERS", Severity.INFO, name)
    ]
    assert report.outcome is Outcome.GOES_ON
