"""What the headers and positions of offset files say against each other, the commits and the state.

Where the facts come from: the header's settings override the session's (OffsetSeqMetadata.setSessionConf), a
setting that it lacks is taken as the oldest Spark had it; FileStreamSource.getBatch asserts that a position
never goes back; MicroBatchExecution takes a batch's watermark from its own header and the commit before.
"""

from collections.abc import Iterator, Mapping, Sequence

from recovery.checkpoints import formats
from recovery.checkpoints.findings import finding
from recovery.checkpoints.formats import CommitFile, OffsetFile
from recovery.checkpoints.report import Finding, StateOperator
from recovery.checkpoints.writer import written_by
from recovery.numbers import whole

PARTITIONS = "spark.sql.shuffle.partitions"
STREAMING = "spark.sql.streaming."
PROVIDER = f"{STREAMING}stateStore.providerClass"
# The setting without which Spark takes the operator's state for the oldest format, by the operator's name.
FORMATS = {
    "stateStoreSave": f"{STREAMING}aggregation.stateFormatVersion",
    "sessionWindowStateStoreSaveExec": f"{STREAMING}aggregation.stateFormatVersion",
    "symmetricHashJoin": f"{STREAMING}join.stateFormatVersion",
    "flatMapGroupsWithState": f"{STREAMING}flatMapGroupsWithState.stateFormatVersion",
}


JOIN_STORE = "left-keyToNumValues"
"""A store that only joins of two streams have, in the layout of four stores."""


def judge_agreement(
    read: Mapping[int | None, OffsetFile],
    planned: int | None,
    standing: tuple[int | None, CommitFile | None],
    operators: Sequence[StateOperator],
) -> list[Finding]:
    """Findings about the newest offset file, whose header the next run goes by.

    `standing`: the newest committed batch and its commit file.
    """
    newest = read.get(planned)
    if planned is None or newest is None:
        return []
    findings = list(_goes_back(read.get(planned - 1), newest, planned))
    findings += _check_watermark(newest, planned, *standing)
    for operator in operators:
        findings += _check_state_settings(newest, planned, operator)
    return findings


def judge_resumption(
    read: Mapping[int | None, OffsetFile], planned: int | None, committed: int | None
) -> list[Finding]:
    """A planned batch that Spark 4.2 cannot take up again once one is committed; of newer Sparks it is not known."""
    newest = read.get(planned)
    if newest is None or newest.version < 2 or planned is None or committed is None or committed >= planned:
        return []
    if (written_by(newest, None) or {}).get("at_least") not in (None, "4.2"):
        return []
    return [finding("BATCH_PLANNED_AS_MAP", f"offsets/{planned}", batch=planned)]


def partitions_by_headers(read: Mapping[int | None, OffsetFile], planned: int | None) -> int | None:
    """Partitions of the state as the headers tell them, where they can be trusted; None: only the metadata tells.

    Spark's tool for repartitioning puts in a batch that reads nothing, whose header has the new number as all later
    ones do; the operators' metadata keeps the old one (OfflineStateRepartitionRunner, seen on 4.2).
    """
    newest, before = read.get(planned), read.get(planned - 1) if planned else None
    if newest is None or before is None:
        return None
    partitions = newest.conf.get(PARTITIONS, "")
    agreed = partitions == before.conf.get(PARTITIONS) or newest.sources == before.sources
    return whole(partitions) if agreed else None


def _goes_back(before: OffsetFile | None, newest: OffsetFile, batch: int) -> Iterator[Finding]:
    was = {line.key: formats.log_offset(line.offset_json) for line in before.sources} if before else {}
    for line in newest.sources:
        here, entry = formats.log_offset(line.offset_json), was.get(line.key)
        if here is not None and entry is not None and here < entry:
            words = {"batch": batch, "before": batch - 1, "source": line.key, "here": here, "there": entry}
            yield finding("OFFSET_GOES_BACK", f"offsets/{batch}", **words)


def _check_watermark(
    newest: OffsetFile, batch: int, committed: int | None, commit: CommitFile | None
) -> Iterator[Finding]:
    """A header's watermark is the one that the commit before has set, that of batch 0 is 0; none goes back.

    So that of a committed batch is not above the one that its own commit has set for the next.
    """
    if batch == 0 and committed is None:
        due = 0
    elif commit and "nextBatchWatermarkMs" in commit.body and committed in (batch, batch - 1):
        due = commit.watermark_ms
    else:
        return
    if newest.watermark_ms > due:
        words = {"batch": batch, "held": newest.watermark_ms, "wanted": due}
        yield finding("WATERMARK_AHEAD", f"offsets/{batch}", **words)


def _check_state_settings(newest: OffsetFile, batch: int, operator: StateOperator) -> Iterator[Finding]:
    file, number = f"offsets/{batch}", operator.operator_id
    needed = [FORMATS[operator.name]] if operator.name in FORMATS else []
    needed += [PROVIDER] if operator.layout == "rocksdb" else []
    lost = [name for name in needed if name not in newest.conf]
    if lost:
        yield finding("HEADER_SETTING_LOST", file, batch=batch, setting=lost[0], operator=number)
    elif JOIN_STORE in operator.stores and FORMATS["symmetricHashJoin"] not in newest.conf:
        # Spark 3.0 and later note the format, and refuse all but inner joins in the first one
        yield finding("JOIN_FORMAT_EARLY", file, operator=number)
    count, partitions = whole(newest.conf.get(PARTITIONS, "")), operator.metadata_partitions
    if partitions and count is not None and count != partitions:
        code = "HEADER_PARTITIONS_MORE" if count > partitions else "HEADER_PARTITIONS_FEWER"
        yield finding(code, file, batch=batch, told=count, operator=number, partitions=partitions)
