"""`manage.py inspect`: exit codes, one JSON object, and words that can be read at night."""

import json
from pathlib import Path

import pytest
from django.core.management import call_command

from recovery.cli.inspection_text import spans
from tests.checkpoint_builder import Built, put, sink_log
from tests.factories import failed_flow, pipeline
from tests.state_checkpoints import unpack
from tests.unit.checkpoints.test_positions import one_source

pytestmark = pytest.mark.django_db


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = 0
    try:
        call_command("inspect", *words)
    except SystemExit as end:
        code = int(end.code or 0)
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_sound_checkpoint_ends_with_0_and_says_where_it_stands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Built(tmp_path / "flow/4", planned=1, sources=2).write()
    sink_log(tmp_path / "table", 2)
    code, out, err = run(capsys, str(tmp_path / "flow"), "--sink", str(tmp_path / "table"))
    assert (code, err) == (0, "")
    assert out.startswith("Sound; ")
    assert "--deep" in out.splitlines()[0]
    for words in (
        "Version      4, the newest of its flow",
        "batch 2 committed, planned 2026-09-21 14:13:20 UTC; batch 3 planned, not committed",
        "Source 1     files: 3 read, newest part 000002.json (log entry 2); 1 planned, not committed",
        "dedupe: 2 partitions, keyed by customer_id, sequence_num",
        "batch 2 is the newest that the table has",
        "INFO     BATCH_PLANNED  offsets/3",
        "Next run     goes on, with the code that wrote it",
    ):
        assert words in out


def test_a_blocker_ends_with_1_and_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Built(tmp_path / "ck").write()
    put(tmp_path / "ck/sources/0/1", "v1")
    code, out, _ = run(capsys, str(tmp_path / "ck"))
    assert code == 1
    assert out.startswith("Not sound: 1 blocker.")
    assert "rows are doubled" in out
    assert "Next run     ends well, and rows are there twice" in out
    assert "  The next run ends well, and rows are there twice." in out
    assert "  Do: Choose repair" in out


@pytest.mark.parametrize("sink", [False, True])
def test_json_is_one_object_with_the_promised_keys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sink: bool
) -> None:
    Built(tmp_path / "ck", planned=1).write()
    sink_log(tmp_path / "table", 9)
    extra = ("--sink", str(tmp_path / "table")) if sink else ()
    code, out, _ = run(capsys, str(tmp_path / "ck"), "--json", *extra)
    body = json.loads(out)
    keys = {
        "format",
        "query_id",
        "last_committed",
        "last_planned",
        "sources",
        "state_operators",
        "findings",
        "sink",
    }
    assert keys <= set(body)
    assert (body["last_committed"], body["last_planned"], body["sources"][0]["committed_files"]) == (2, 3, 3)
    assert all({"code", "severity", "file", "says", "do"} <= set(f) for f in body["findings"])
    assert code == (1 if sink else 0)
    assert (body["sink"] or {}).get("head") == (9 if sink else None)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            '{"offset":3,"timestamp":1000}',
            "rate-micro-batch: 3 rows, its time at 1970-01-01 00:00:01.000 UTC",
        ),
        (
            '{"version":1,"snapshot_id":77,"position":2,"scan_all_files":false}',
            "iceberg: 2 files read of the files added by snapshot 77",
        ),
        ('{"offset": 5, "x": "y"}', 'unknown: {"offset": 5, "x": "y"}'),
        ("a\x1b[2Jb", "unknown: a\\x1b[2Jb"),
    ],
)
def test_a_source_s_position_is_said_by_its_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, said: str
) -> None:
    one_source(tmp_path / "ck", line)
    _, out, _ = run(capsys, str(tmp_path / "ck"))
    assert f"Source 0     {said}\n" in out
    _, out, _ = run(capsys, str(tmp_path / "ck"), "--json")
    source = json.loads(out)["sources"][0]
    assert source["offset_json"] == line
    assert source["label"].replace("\x1b", "\\x1b") == said.partition(": ")[2]


@pytest.mark.parametrize("as_json", [False, True])
def test_a_path_that_cannot_be_read_ends_with_2_and_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    code, out, err = run(capsys, str(tmp_path / "no"), *(["--json"] if as_json else []))
    assert code == 2
    assert err.strip() == f"{tmp_path / 'no'} does not exist. Check the path."
    assert (json.loads(out)["error"]["says"] if as_json else out or err.strip()) == err.strip()


def test_control_characters_of_a_file_never_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Built(tmp_path / "ck").write()
    name = {"operatorId": 0, "operatorName": "a\x1b[2Jb" + "x" * 10_000}
    stores = [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": 2}]
    body = json.dumps({"operatorInfo": name, "stateStoreInfo": stores})
    put(tmp_path / "ck/state/0/_metadata/metadata", f"v1\n{body}")
    _, out, _ = run(capsys, str(tmp_path / "ck"))
    assert "\x1b" not in out
    assert "a\\x1b[2Jb" in out
    assert max(len(line) for line in out.splitlines()) < 700


def test_a_storage_root_is_answered_with_its_flows_and_their_versions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = tmp_path / "_checkpoints/spark_catalog/shop/orders/load"
    Built(flow / "0", operators=()).write()
    Built(flow / "1", batches=5, operators=()).write()
    code, out, _ = run(capsys, str(tmp_path))
    assert code == 0
    assert "1 flow below" in out
    assert out.index("version 1: batch 4") < out.index("version 0: batch 2")
    code, out, _ = run(capsys, str(tmp_path), "--json")
    assert [v["last_committed"] for v in json.loads(out)["flows"][0]["versions"]] == [2, 4]
    (flow / "1/metadata").unlink()
    assert run(capsys, str(tmp_path))[0] == 1


@pytest.mark.parametrize(
    ("case", "words"),
    [
        (
            "rocksdb-dedupe",
            "dedupe: 2 partitions, keyed by k, 10 rows, 38,398 bytes, rocksdb format 1; whole for",
        ),
        (
            "hdfs-limit",
            "globalLimit: 1 partition, keyed by key, 607 bytes, hdfs format 1; whole for batches 0-3",
        ),
    ],
)
def test_state_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], case: str, words: str
) -> None:
    code, out, _ = run(capsys, str(unpack(case, tmp_path)), "--deep")
    assert code == 0
    assert words in out


@pytest.mark.parametrize(
    ("numbers", "text"), [((), ""), ((3,), "3"), ((0, 1, 2), "0-2"), ((0, 1, 3, 7, 8), "0-1, 3, 7-8")]
)
def test_numbers_are_told_as_spans(numbers: tuple[int, ...], text: str) -> None:
    assert spans(numbers) == text


def test_deep_says_on_stderr_how_far_it_is_and_nothing_else_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Built(tmp_path / "ck").write()
    _, out, err = run(capsys, str(tmp_path / "ck"), "--deep", "--json")
    assert json.loads(out)["last_committed"] == 2
    assert err == "6 of 6 state files checked\n"


def test_a_batch_is_shown_as_the_page_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Built(tmp_path / "flow/0", planned=1, files_per_batch=2).write()
    code, out, err = run(capsys, str(tmp_path / "flow"), "--batch", "3")
    assert (code, err) == (0, "")
    for words in (
        "Batch 3: planned, not committed.",
        "Planned      2026-09-21 14:13:20 UTC",
        "Watermark    none; after it not recorded",
        "Source 0     files: log entry 3",
        "  Took   2 files, part 000006.json to part 000007.json",
        '  From   {"logOffset":2}',
        '  To     {"logOffset":3}',
        "    2026-09-21 14:13:26 UTC  part 000006.json",
    ):
        assert words in out
    code, out, _ = run(capsys, str(tmp_path / "flow"), "--batch", "3", "--json")
    assert json.loads(out)["batch"]["sources"][0]["files"]["count"] == 2


@pytest.mark.parametrize("asked", [("1", "3"), ("3", "1")])
def test_two_batches_are_compared_the_older_one_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: tuple[str, str]
) -> None:
    Built(tmp_path / "ck", planned=1).write()
    code, out, _ = run(capsys, str(tmp_path / "ck"), "--batch", asked[0], "--beside", asked[1])
    assert code == 0
    assert out.startswith("From batch 1 (committed) to batch 3 (planned, not committed)\n")
    assert "Source 0     files: 2 files, part 000002.json to part 000003.json" in out
    assert "Settings     the same" in out
    assert (
        "State partitions Not recorded in either batch: only commits of state format 2 name operators." in out
    )
    code, out, _ = run(capsys, str(tmp_path / "ck"), "--batch", asked[0], "--beside", asked[1], "--json")
    body = json.loads(out)
    assert (body["batch"]["number"], body["difference"]["before"], body["difference"]["after"]) == (
        int(asked[0]),
        1,
        3,
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--batch", "7"), "It holds batches 0 to 2."),
        (("--beside", "1"), "give --batch N too"),
        (("--batch", "1", "--deep"), "leave it out with --batch"),
    ],
)
def test_what_cannot_be_shown_ends_with_2_and_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    Built(tmp_path / "ck").write()
    code, out, err = run(capsys, str(tmp_path / "ck"), *words)
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.splitlines()) == 1


def test_a_batch_that_is_damaged_ends_with_1_and_says_where_to_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Built(tmp_path / "ck").write()
    put(tmp_path / "ck/offsets/2", "")
    code, out, _ = run(capsys, str(tmp_path / "ck"), "--batch", "2")
    assert code == 1
    assert "offsets/2 cannot be read: it is empty. Run inspect without --batch: it shows what to do." in out


@pytest.mark.parametrize(
    ("words", "code", "outcome"),
    [
        ((), 0, "not promised"),
        (("--keeps-state", "no"), 0, "goes on"),
        (("--keeps-state", "yes"), 1, "fails"),
    ],
)
def test_whoever_knows_the_code_says_whether_it_keeps_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int, outcome: str
) -> None:
    Built(tmp_path / "ck", operators=()).write()
    ended, out, _ = run(capsys, str(tmp_path / "ck"), "--json", *words)
    assert (ended, json.loads(out)["outcome"]) == (code, outcome)
    _, out, _ = run(capsys, str(tmp_path / "ck"), *words)
    assert out.startswith("Sound") == (outcome == "goes on")


@pytest.mark.parametrize(
    ("state", "version", "code", "blockers"),
    [
        ("failed", "", 1, ["STATE_OPERATOR_NOT_IN_CODE"]),
        ("failed", "/1", 1, ["STATE_OPERATOR_NOT_IN_CODE"]),
        ("failed", "/0", 0, []),
        ("ok", "", 0, []),
    ],
)
def test_the_checkpoint_of_a_known_flow_is_judged_with_its_code(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    state: str,
    version: str,
    code: int,
    blockers: list[str],
) -> None:
    flow = failed_flow(pipeline(spec={"storage": tmp_path.as_uri()}), state=state)
    place = tmp_path / "_checkpoints" / flow.dataset.replace(".", "/") / flow.short
    Built(place / "0").write()
    Built(place / "1", planned=1).write()
    ended, out, _ = run(capsys, f"{place}{version}", "--json")
    told = json.loads(out)
    assert (ended, [f["code"] for f in told["findings"] if f["severity"] == "blocker"]) == (code, blockers)
    assert told["outcome"] == ("fails" if blockers else "goes on")


@pytest.mark.parametrize(("state", "untold"), [("failed", []), ("ok", ["STATE_UNTOLD"])])
@pytest.mark.django_db
def test_of_a_flow_whose_code_is_known_nothing_of_its_state_is_left_untold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], state: str, untold: list[str]
) -> None:
    flow = failed_flow(pipeline(spec={"storage": tmp_path.as_uri()}), state=state)
    place = tmp_path / "_checkpoints" / flow.dataset.replace(".", "/") / flow.short
    Built(place / "0", operators=()).write()
    _, out, _ = run(capsys, str(place), "--json")
    told = [f["code"] for f in json.loads(out)["findings"]]
    assert [code for code in told if code.startswith("STATE_UNTOLD")] == untold
