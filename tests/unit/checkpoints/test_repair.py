"""A repair: what each damage becomes, what stays and why, and that the old version is never touched."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import inspect_checkpoint, list_versions, publishing, repair
from recovery.checkpoints.repair import KnownFacts, ListedInput
from recovery.errors import Refused
from tests.checkpoint_builder import STARTED_MS, Built, dumps, input_uri, put, sink_log
from tests.refusals import refused
from tests.state_checkpoints import unpack
from tests.unit.checkpoints.seeding import flow, free, tree

__all__ = ["flow"]

Damage = Callable[[Path], Any]
FILES = KnownFacts(new_query_id="11111111-1111-4111-8111-111111111111", sink_kind="files", sink_head=2)
BLIND = KnownFacts(new_query_id=FILES.new_query_id)


def drop_checksum(file: Path) -> None:
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)


def drop(checkpoint: Path, name: str) -> None:
    target = checkpoint / name
    drop_checksum(target)
    shutil.rmtree(target) if target.is_dir() else target.unlink()


def cut(checkpoint: Path, name: str, size: int) -> None:
    (checkpoint / name).write_text((checkpoint / name).read_text()[:size])


def repaired(flow: Path, known: KnownFacts = FILES, recovery: str = "R-1", fence: int = 1) -> int | None:
    plan = repair.plan_repair(str(flow), known)
    ready = repair.prepare_repair(str(flow), plan, recovery=recovery, fence=fence, guard=free)
    return publishing.publish_checkpoint(str(flow), ready, guard=free)


def logs(checkpoint: Path) -> dict[str, bytes]:
    return {n: b for n, b in tree(checkpoint).items() if ".crc" not in n and not n.startswith("state/")}


# what is damaged, how, which files the mended version has other than the sound one (None: left out)
MENDED: list[tuple[str, Damage, dict[str, Any]]] = [
    ("metadata missing", lambda c: drop(c, "metadata"), {"metadata": dumps({"id": FILES.new_query_id})}),
    (
        "metadata garbage",
        lambda c: put(c / "metadata", "}{"),
        {"metadata": dumps({"id": FILES.new_query_id})},
    ),
    ("planned offsets cut", lambda c: cut(c, "offsets/3", 60), {"offsets/3": None}),
    ("planned offsets empty", lambda c: put(c / "offsets/3", ""), {"offsets/3": None}),
    (
        "planned log entry missing",
        lambda c: drop(c, "sources/0/3"),
        {"offsets/3": None, "sources/0/3": None},
    ),
    (
        "planned log entry empty",
        lambda c: put(c / "sources/0/3", ""),
        {"offsets/3": None, "sources/0/3": None},
    ),
    ("stray offsets", lambda c: shutil.copy(c / "offsets/2", c / "offsets/40"), {}),
    ("stale sidecar", lambda c: (c / "offsets/.4.crc").write_text("left over"), {}),
    ("offsets of the last batch missing", lambda c: drop(c, "offsets/2"), {"offsets/2": "rebuilt"}),
    ("offsets of the last batch empty", lambda c: put(c / "offsets/2", ""), {"offsets/2": "rebuilt"}),
    ("commit empty", lambda c: put(c / "commits/2", ""), {}),
    ("commit garbage", lambda c: put(c / "commits/2", "v1\n}{"), {}),
    ("operator metadata gone", lambda c: drop(c, "state/0/_metadata"), {}),
    ("operator metadata garbage", lambda c: put(c / "state/0/_metadata/metadata", "x"), {}),
]


@pytest.mark.parametrize(("damage", "differs"), [m[1:] for m in MENDED], ids=[m[0] for m in MENDED])
def test_a_damage_is_mended_in_a_new_version_and_the_old_one_is_left_as_it_was(
    flow: Path, damage: Damage, differs: dict[str, Any]
) -> None:
    sound = logs(flow / "0")
    damage(flow / "0")
    before = tree(flow / "0")
    assert repaired(flow) == 1
    assert tree(flow / "0") == before
    report = inspect_checkpoint(str(flow))
    assert (report.version, report.last_committed, report.blockers) == (1, 2, ())
    assert not [f for f in report.findings if f.code.startswith("OPERATOR_METADATA")]
    now = logs(flow / "1")
    wanted = dict(sound)
    for name, data in differs.items():
        wanted.pop(name)
        if data == "rebuilt":
            assert now[name].split(b"\n")[2:] == sound[name].split(b"\n")[2:]
            wanted[name] = now[name]
        elif data is not None:
            wanted[name] = data.encode()
    assert now == wanted
    assert not [n for n in tree(flow / "1") if n.rsplit("/", 1)[-1].startswith(".")]
    publishing.undo_publish(str(flow), recovery="R-1", sink_head=2)
    assert list_versions(str(flow)) == [0]


AFTER_THE_LAST: list[tuple[str, Damage]] = [
    ("the neighbour is missing", lambda c: drop(c, "offsets/1")),
    ("the neighbour is broken", lambda c: put(c / "offsets/1", "v1\n{")),
    ("the newest is missing", lambda c: drop(c, "offsets/2")),
    (
        "the newest lost its sources",
        lambda c: cut(c, "offsets/2", (c / "offsets/2").read_text().rindex("\n")),
    ),
]


@pytest.mark.parametrize("damage", [d[1] for d in AFTER_THE_LAST], ids=[d[0] for d in AFTER_THE_LAST])
def test_one_of_the_two_newest_offset_files_is_rebuilt(tmp_path: Path, damage: Damage) -> None:
    Built(tmp_path / "flow/0", batches=3).write()
    damage(tmp_path / "flow/0")
    assert repaired(tmp_path / "flow") == 1
    report = inspect_checkpoint(str(tmp_path / "flow"))
    assert (report.last_committed, report.last_planned, report.findings) == (2, 2, ())
    assert [s.offset_json for s in report.sources] == ['{"logOffset":2}']
    header = json.loads((tmp_path / "flow/1/offsets/2").read_text().split("\n")[1])
    assert header["conf"], "the settings of the state must be carried over"


def test_the_query_id_is_taken_from_the_broken_file_or_is_a_new_one(flow: Path) -> None:
    own = inspect_checkpoint(str(flow)).query_id
    cut(flow / "0", "metadata", 44)
    assert repair.plan_repair(str(flow), FILES).after.query_id == own
    drop(flow / "0", "metadata")
    assert repair.plan_repair(str(flow), FILES).after.query_id == FILES.new_query_id
    stays = repair.plan_repair(str(flow), BLIND)
    assert not stays.complete
    assert "may be in the sink under the old query id" in stays.left[0].why


def test_a_planned_batch_that_the_table_holds_is_rebuilt_over_the_same_files(flow: Path) -> None:
    whole = logs(flow / "0")["offsets/3"]
    cut(flow / "0", "offsets/3", 60)
    assert repaired(flow, replace(FILES, sink_head=3)) == 1
    now = logs(flow / "1")["offsets/3"]
    assert now.split(b"\n")[2:] == whole.split(b"\n")[2:]
    assert inspect_checkpoint(str(flow)).last_planned == 3


def test_watermark_and_named_sources_come_back_in_rebuilt_offsets(tmp_path: Path) -> None:
    Built(tmp_path / "flow/0", batches=3, planned=1, version=2, sources=2, operators=()).write()
    for batch in (1, 2):
        put(tmp_path / f"flow/0/commits/{batch}", 'v1\n{"nextBatchWatermarkMs":77}')
    whole = (tmp_path / "flow/0/offsets/2").read_text()
    drop(tmp_path / "flow/0", "offsets/2")
    assert repaired(tmp_path / "flow") == 1
    lines = (tmp_path / "flow/1/offsets/2").read_text().split("\n")
    assert [lines[0], *lines[2:]] == ["v2", *whole.split("\n")[2:]]
    assert json.loads(lines[1])["batchWatermarkMs"] == 77


@pytest.mark.parametrize(("head", "mended"), [(1, True), (2, False)])
def test_a_planned_batch_of_format_2_is_left_out_where_the_table_does_not_hold_it(
    tmp_path: Path, head: int, mended: bool
) -> None:
    Built(tmp_path / "flow/0", batches=2, planned=1, version=2, operators=()).write()
    plan = repair.plan_repair(str(tmp_path / "flow"), replace(FILES, sink_head=head))
    assert plan.complete is mended
    if mended:
        assert repaired(tmp_path / "flow", replace(FILES, sink_head=head)) == 1
        report = inspect_checkpoint(str(tmp_path / "flow"))
        assert (report.last_committed, report.last_planned, report.blockers) == (1, 1, ())


def test_where_a_lost_batch_of_two_sources_ended_is_not_known(tmp_path: Path) -> None:
    Built(tmp_path / "flow/0", batches=3, sources=2).write()
    drop(tmp_path / "flow/0", "offsets/2")
    assert not repair.plan_repair(str(tmp_path / "flow"), FILES).complete


def listed(numbers: range, **words: Any) -> KnownFacts:
    files = tuple((input_uri(0, n), STARTED_MS - 1 if n < 3 else STARTED_MS + 60_000) for n in numbers)
    return replace(FILES, listings={"0": ListedInput(files, **words)})


@pytest.mark.parametrize(
    "damage",
    [
        lambda c: put(c / "sources/0/2", "v1"),
        lambda c: put(c / "sources/0/1", "v1"),
        lambda c: put(c / "sources/0/1", ""),
        lambda c: drop(c, "sources/0/2"),
        lambda c: drop(c, "sources/0/1"),
    ],
)
def test_a_lost_log_entry_is_inferred_from_what_lies_there(tmp_path: Path, damage: Damage) -> None:
    Built(tmp_path / "flow/0", batches=3).write()
    sound = {e.path: e.batch_id for e in inspect_checkpoint(str(tmp_path / "flow")).sources[0].committed}
    damage(tmp_path / "flow/0")
    plan = repair.plan_repair(str(tmp_path / "flow"), listed(range(6), max_files=1))
    assert plan.complete
    assert not plan.exact
    assert {e.path: e.batch_id for e in plan.after.sources[0].committed} == sound
    assert repaired(tmp_path / "flow", listed(range(6))) == 1
    assert inspect_checkpoint(str(tmp_path / "flow")).findings == ()


def test_a_broken_compacted_entry_is_rebuilt_from_the_single_ones(tmp_path: Path) -> None:
    Built(tmp_path / "flow/0", batches=10).write()
    sound = list(inspect_checkpoint(str(tmp_path / "flow")).sources[0].committed)
    put(tmp_path / "flow/0/sources/0/9.compact", "v1\n{")
    files = tuple((input_uri(0, n), STARTED_MS + (n if n < 10 else 60_000)) for n in range(12))
    known = replace(FILES, sink_head=9, listings={"0": ListedInput(files)})
    plan = repair.plan_repair(str(tmp_path / "flow"), known)
    assert plan.complete
    assert [(e.path, e.batch_id) for e in plan.after.sources[0].committed] == [
        (e.path, e.batch_id) for e in sound
    ]


STAYS: list[tuple[str, Damage, KnownFacts, str]] = [
    ("no listing", lambda c: put(c / "sources/0/2", "v1"), FILES, "no listing was given"),
    ("files gone", lambda c: put(c / "sources/0/2", "v1"), listed(range(2)), "its files are gone"),
    (
        "two entries lost",
        lambda c: [put(c / f"sources/0/{n}", "v1") for n in (1, 2)],
        listed(range(6)),
        "both lost",
    ),
    (
        "more files than a batch takes",
        lambda c: put(c / "sources/0/2", "v1"),
        replace(FILES, listings={"0": ListedInput(tuple((f"file:///x/{n}", 5) for n in range(3)), 2)}),
        "takes at most 2",
    ),
    ("state gone", lambda c: drop(c, "state/0/1"), FILES, "Put it back"),
    ("all offsets gone", lambda c: drop(c, "offsets"), FILES, "Put the offset files back"),
    (
        "planned offsets, sink unknown, log gone",
        lambda c: [cut(c, "offsets/3", 9), drop(c, "sources")],
        BLIND,
        "what it spans is not known",
    ),
    (
        "commit with ids of state files broken, sink unknown",
        lambda c: [
            put(c / "commits/2", ""),
            *(put(c / f"commits/{n}", 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}') for n in (0, 1)),
        ],
        BLIND,
        "ids of state files",
    ),
]


@pytest.mark.parametrize(("damage", "known", "words"), [s[1:] for s in STAYS], ids=[s[0] for s in STAYS])
def test_what_cannot_be_mended_is_said_and_nothing_is_written(
    flow: Path, damage: Damage, known: KnownFacts, words: str
) -> None:
    damage(flow / "0")
    before = tree(flow)
    plan = repair.plan_repair(str(flow), known)
    assert not plan.complete
    assert words in " ".join(damage.why for damage in plan.left)
    with refused("not_mendable", Refused):
        repair.prepare_repair(str(flow), plan, recovery="R-1", fence=1, guard=free)
    assert tree(flow) == before


def test_a_sound_checkpoint_is_not_repaired(flow: Path) -> None:
    plan = repair.plan_repair(str(flow), FILES)
    assert (plan.mendings, plan.left) == ((), ())
    with pytest.raises(Refused, match="nothing to repair"):
        repair.prepare_repair(str(flow), plan, recovery="R-1", fence=1, guard=free)


def test_several_damages_are_mended_together(flow: Path, tmp_path: Path) -> None:
    for name in ("metadata", "offsets/2", "state/0/_metadata"):
        drop(flow / "0", name)
    shutil.copy(flow / "0/offsets/1", flow / "0/offsets/40")
    (flow / "0/commits/.3.crc").write_text("left over")
    sink_log(tmp_path / "table", 2)
    plan = repair.plan_repair(str(flow), FILES, sink=str(tmp_path / "table"))
    assert {m.code for m in plan.mendings} == {
        "METADATA_MISSING", "OFFSET_NEIGHBOUR_MISSING", "OPERATOR_METADATA_MISSING", "OFFSET_STRAY", "ORPHAN_CRC"
    }  # fmt: skip
    assert plan.complete
    assert repaired(flow) == 1
    assert inspect_checkpoint(str(flow), sink=str(tmp_path / "table")).blockers == ()


def test_state_that_maintenance_writes_after_the_plan_does_not_make_it_stale(flow: Path) -> None:
    put(flow / "0/metadata", "}{")
    plan = repair.plan_repair(str(flow), FILES)
    put(flow / "0/state/0/1/3.snapshot", "whole")
    ready = repair.prepare_repair(str(flow), plan, recovery="R-1", fence=1, guard=free)
    assert publishing.publish_checkpoint(str(flow), ready, guard=free) == 1
    assert not (flow / "1/state/0/1/3.snapshot").exists(), "what was judged, and nothing else"


def test_state_that_is_gone_since_the_plan_is_said_and_nothing_is_left_behind(flow: Path) -> None:
    put(flow / "0/metadata", "}{")
    plan = repair.plan_repair(str(flow), FILES)
    (flow / "0/state/0/1/1.delta").unlink()
    before = tree(flow)
    with refused("stale", Refused, names=("version 0",)):
        repair.prepare_repair(str(flow), plan, recovery="R-1", fence=1, guard=free)
    assert tree(flow) == before


def test_files_that_are_kept_are_linked_and_mended_ones_are_new(flow: Path) -> None:
    put(flow / "0/metadata", "}{")
    repaired(flow)
    old, new = flow / "0", flow / "1"
    for name in ("state/0/1/2.delta", "sources/0/1", "offsets/2"):
        assert (old / name).stat().st_ino == (new / name).stat().st_ino
    assert (old / "metadata").stat().st_ino != (new / "metadata").stat().st_ino


def schema_of_its_own(checkpoint: Path) -> None:
    """A state schema where transformWithState keeps it."""
    place = checkpoint / "state/0/_stateSchema/default"
    place.mkdir(parents=True)
    shutil.copy(checkpoint / "state/0/0/_metadata/schema", place / "0_a1b2")


def test_schema_paths_of_transform_with_state_follow_to_the_new_version(flow: Path) -> None:
    old = f"file:{flow}/0/state/0/_stateSchema/default/0_a1b2"
    info = {"operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateExec"}}
    store = {"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2, "stateSchemaFilePaths": [old]}
    schema_of_its_own(flow / "0")
    drop(flow / "0", "state/0/_metadata")
    put(flow / "0/state/0/_metadata/v2/0", f"v2\n{dumps({**info, 'stateStoreInfo': [store]})}")
    drop(flow / "0", "metadata")
    assert repaired(flow) == 1
    now = (flow / "1/state/0/_metadata/v2/0").read_text()
    assert now.startswith("v2\n")
    assert old.replace("/0/state/", "/1/state/") in now


def test_a_moved_transform_with_state_checkpoint_gets_paths_of_its_own_place(flow: Path) -> None:
    foreign = "file:/elsewhere/ck/state/0/_stateSchema/default/0_a1b2"
    info = {"operatorInfo": {"operatorId": 0, "operatorName": "transformWithStateExec"}}
    store = {
        "storeName": "default",
        "numColsPrefixKey": 0,
        "numPartitions": 2,
        "stateSchemaFilePaths": [foreign],
    }
    schema_of_its_own(flow / "0")
    drop(flow / "0", "state/0/_metadata")
    put(flow / "0/state/0/_metadata/v2/0", f"v2\n{dumps({**info, 'stateStoreInfo': [store]})}")
    plan = repair.plan_repair(str(flow), FILES)
    assert [(m.code, "/elsewhere/ck" in m.says) for m in plan.mendings] == [("STATE_SCHEMA_ELSEWHERE", True)]
    assert repaired(flow) == 1
    assert (
        f"file:{flow}/1/state/0/_stateSchema/default/0_a1b2"
        in (flow / "1/state/0/_metadata/v2/0").read_text()
    )


def test_a_checkpoint_with_one_fixed_place_is_mended_there_and_the_old_one_set_aside(tmp_path: Path) -> None:
    Built(tmp_path / "ck").write()
    drop(tmp_path / "ck", "offsets/1")
    before = tree(tmp_path / "ck")
    assert repaired(tmp_path / "ck") is None
    assert inspect_checkpoint(str(tmp_path / "ck")).findings == ()
    assert tree(tmp_path / ".reprise-R-1-before") == before


@pytest.mark.parametrize("deep", [True, False])
def test_a_state_file_that_is_cut_stays_damaged_where_state_files_are_read(
    tmp_path: Path, deep: bool
) -> None:
    root = unpack("hdfs-limit", tmp_path)
    newest = max((root / "state/0/0").glob("*.delta"), key=lambda p: int(p.stem))
    newest.write_bytes(newest.read_bytes()[:32])
    drop_checksum(newest)
    plan = repair.plan_repair(str(root), FILES, deep=deep)
    assert [d.code for d in plan.left if d.blocker] == (["STATE_FILE_DAMAGED"] if deep else [])
