"""Seeds over sources other than files: the line and what the source began with are kept to the byte, or refused."""

from pathlib import Path

import pytest

from recovery.checkpoints import inspect_checkpoint, seed
from recovery.errors import Refused
from tests.checkpoint_builder import put
from tests.refusals import refused
from tests.unit.checkpoints.seeding import flow, seeded
from tests.written_by_others import unpack

__all__ = ["flow"]


@pytest.mark.parametrize("line", ['{"sequence":"7"}', "[1]", '{"topic":{"0":"7"}}'])
def test_a_source_of_another_kind_is_refused(flow: Path, line: str) -> None:
    for batch in (1, 2, 3):
        text = (flow / f"0/offsets/{batch}").read_text().rsplit("\n", 1)[0]
        put(flow / f"0/offsets/{batch}", f"{text}\n{line}")
    with refused("kind_not_seedable", Refused, names=("Source 0",)):
        seed.plan_seed(inspect_checkpoint(str(flow)))


@pytest.mark.parametrize(("name", "logs"), [("kafka-to-files", 1), ("kafka-two-topics", 2)])
def test_a_kafka_source_keeps_its_line_and_where_it_began_to_the_byte(
    tmp_path: Path, name: str, logs: int
) -> None:
    """Of checkpoints that Spark wrote: an added partition; two topics in one source, a planned batch."""
    unpack("kafka-4.2.0", name, tmp_path / "case")
    old = tmp_path / "flow/0"
    old.parent.mkdir()
    (tmp_path / "case/checkpoint").rename(old)
    before = inspect_checkpoint(str(old))
    last = before.last_committed
    assert last is not None

    assert seeded(tmp_path / "flow") == 1

    new, after = tmp_path / "flow/1", inspect_checkpoint(str(tmp_path / "flow/1"))
    assert (after.last_committed, after.last_planned) == (last, last)
    assert [s.offset_json for s in after.sources] == [s.offset_json for s in before.sources]
    for number in (last - 1, last) if last else (last,):
        assert (new / f"offsets/{number}").read_bytes() == (old / f"offsets/{last}").read_bytes()
    for number in range(logs):
        assert (new / f"sources/{number}/0").read_bytes() == (old / f"sources/{number}/0").read_bytes()
    assert sorted(p.name for p in (new / "sources").iterdir()) == [str(n) for n in range(logs)]


@pytest.mark.parametrize(
    "name",
    [
        "delta-within-version",
        "delta-within-snapshot",
        "delta-complete",
        "delta-change-feed",
        "delta-schema-log",
    ],
)
def test_a_delta_source_keeps_its_line_to_the_byte(tmp_path: Path, name: str) -> None:
    """Of checkpoints that Spark wrote; a log of schemas is not taken over, since it names the old checkpoint."""
    unpack("delta-4.2.0", name, tmp_path / "case")
    (tmp_path / "flow").mkdir()
    (tmp_path / "case/checkpoint").rename(tmp_path / "flow/0")
    before = inspect_checkpoint(str(tmp_path / "flow/0"))
    assert seeded(tmp_path / "flow") == 1
    after = inspect_checkpoint(str(tmp_path / "flow/1"))
    assert after.last_planned == after.last_committed == before.last_committed
    assert [(s.kind, s.offset_json) for s in after.sources] == [("delta", before.sources[0].offset_json)]
    assert after.query_id != before.query_id
    assert {p.name for p in (tmp_path / "flow/1").iterdir()} == {"metadata", "offsets", "commits", "sources"}


def test_a_delta_source_at_a_change_of_schema_is_not_seeded(tmp_path: Path) -> None:
    unpack("delta-4.2.0", "delta-schema-log", tmp_path / "case")
    (tmp_path / "flow").mkdir()
    old = (tmp_path / "case/checkpoint").rename(tmp_path / "flow/0")
    for folder in ("offsets", "commits"):
        for number in ("4", "5"):
            (old / folder / number).unlink()
    with refused("at_schema_change", Refused):
        seed.plan_seed(inspect_checkpoint(str(tmp_path / "flow")))


def test_kafka_and_files_are_seeded_side_by_side(flow: Path) -> None:
    for batch in range(4):
        put(
            flow / f"0/offsets/{batch}",
            (flow / f"0/offsets/{batch}").read_text() + f'\n{{"t":{{"0":{batch}}}}}',
        )
    (flow / "0/sources/1").mkdir()
    (flow / "0/sources/1/0").write_bytes(b'\0v1\n{"t":{"0":0}}')

    seeded(flow)

    after = inspect_checkpoint(str(flow / "1"))
    assert [(s.kind, s.offset_json) for s in after.sources] == [
        ("files", '{"logOffset":2}'),
        ("kafka", '{"t":{"0":2}}'),
    ]
    assert (flow / "1/sources/1/0").read_bytes() == b'\0v1\n{"t":{"0":0}}'
    assert after.blockers == ()
