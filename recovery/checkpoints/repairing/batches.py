"""Query id, offset files and commit files: what can be known of a lost one from those beside it.

Facts (MicroBatchExecution.populateStartOffsets): of the newest offset file Spark reads header and range, of the
one before only the range's start; batch N + 1 is planned only after N is committed, and its header holds the
watermark that commit N named. A file source writes its log entry before the offset file that names it.
"""

import json
import re
from collections.abc import Sequence

from recovery.checkpoints import filelog, formats
from recovery.checkpoints.formats import Malformed, OffsetFile
from recovery.checkpoints.repairing.work import CannotRepair, RepairWork
from recovery.checkpoints.report import Finding
from recovery.checkpoints.seed_files import metadata_of
from recovery.contracts.steps import DamageMending

UUID = re.compile(rb'"id"\s*:\s*"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})"')


def mend_metadata(work: RepairWork, finding: Finding) -> DamageMending:
    """The query id: still legible, or a new one where the sink does not know a batch by it."""
    query_id, whence = _query_id(work)
    work.layout.write("metadata", metadata_of(query_id))
    return DamageMending(code=finding.code, file="metadata", says=finding.says, how=f"Written with {whence}.")


def _query_id(work: RepairWork) -> tuple[str, str]:
    try:
        legible = UUID.search(work.read("metadata"))
    except Malformed:
        legible = None
    if legible:
        return legible[1].decode(), f"the query id {legible[1].decode()}, which the broken file still shows"
    committed, planned = work.report.last_committed, work.report.last_planned
    unfinished = planned is not None and (committed is None or planned > committed)
    if unfinished and work.known.sink_kind != "files":
        raise CannotRepair(
            f"Batch {planned} may be in the sink under the old query id. Put metadata back from a backup, or write it "
            "with that id (Delta: txn.appId of the table's history; Iceberg: spark.sql.streaming.queryId of a "
            "snapshot's summary)."
        )
    if not work.known.new_query_id:
        raise CannotRepair("The query id is not known. Put metadata back from a backup.")
    why = "a file table knows batches by number alone" if unfinished else "no batch is unfinished"
    return work.known.new_query_id, f"a new query id: {why}"


def planned_offsets(work: RepairWork, finding: Finding) -> DamageMending:
    """A half-written file of a batch that was not committed: left out, or rebuilt where the sink may hold it."""
    name, batch = _file_of_finding(finding), _batch_of_finding(finding)
    if work.in_sink(batch) is False:
        work.layout.leave_out(name)
        return DamageMending(
            code=finding.code,
            file=name,
            says=finding.says,
            how=f"Left out: the table does not hold batch {batch}; it is planned again.",
        )
    before = work.offsets(batch - 1)
    if before is None:
        raise CannotRepair(
            f"The table may hold batch {batch}, and the batch before it is not readable either."
        )
    ends = [_newest_entry(work, line.key, line.offset_json, batch) for line in before.sources]
    _write_offsets(work, batch, work.read(f"offsets/{batch - 1}"), ends)
    return DamageMending(
        code=finding.code,
        file=name,
        says=finding.says,
        how="Rebuilt from the newest log entries: the batch spans the same files.",
    )


def planned_as_map(work: RepairWork, finding: Finding) -> DamageMending:
    """A whole plan in offset format 2, which Spark 4.2 cannot take up again: left out, so that it is planned again."""
    batch = _batch_of_finding(finding)
    if work.in_sink(batch) is not False:
        raise CannotRepair(f"The sink may hold batch {batch}; a seeded reset goes on after it.")
    work.layout.leave_out(_file_of_finding(finding))
    how = f"Left out: the table does not hold batch {batch}; it is planned again."
    return DamageMending(code=finding.code, file=_file_of_finding(finding), says=finding.says, how=how)


def _newest_entry(work: RepairWork, key: str, reached: str | None, batch: int) -> str | None:
    """End offset of an unfinished batch of a file source: its newest log entry, which was written for it."""
    newest = max(filelog.index_of(work.layout.names(f"sources/{key}")), default=None)
    if newest is None and reached is None:
        return None
    stood = formats.log_offset(reached)
    if newest is None or (reached is not None and stood is None) or newest - (stood or 0) > 1:
        raise CannotRepair(
            f"The sink may hold batch {batch}, and what it spans is not known. Put offsets/{batch} back from "
            "a backup, or name the table."
        )
    return json.dumps({"logOffset": newest}, separators=(",", ":"))


def mend_stray(work: RepairWork, finding: Finding) -> DamageMending:
    """A numeric name that follows on nothing."""
    work.layout.leave_out(_file_of_finding(finding))
    return DamageMending(
        code=finding.code, file=_file_of_finding(finding), says=finding.says, how="Left out."
    )


def planned_entry(work: RepairWork, finding: Finding) -> DamageMending:
    """The planned batch names a log entry that is not there or broken: the whole plan of that batch goes."""
    batch = work.report.last_planned
    assert batch is not None, "the finding speaks of a planned batch"
    if work.in_sink(batch) is not False:
        raise CannotRepair(f"The sink may hold batch {batch}, and which files it spans is not known.")
    work.layout.leave_out(f"offsets/{batch}")
    work.layout.leave_out(_file_of_finding(finding))
    how = f"Left out with offsets/{batch}: the table does not hold batch {batch}; it is planned again."
    return DamageMending(code=finding.code, file=_file_of_finding(finding), says=finding.says, how=how)


def lost_offsets(work: RepairWork, finding: Finding) -> DamageMending:
    """A lost or broken offset file among those that a restart reads."""
    batch = _batch_of_finding(finding)
    committed, newest = work.report.last_committed, max(work.batches("offsets"), default=batch)
    name = f"offsets/{batch}"
    if batch + 1 == committed == newest:
        data = work.read(f"offsets/{newest}")
        formats.parse_offsets(data)
        work.layout.write(name, data)
        how = f"A copy of offsets/{newest}: batch {newest} is committed, so only that there is one matters."
        return DamageMending(code=finding.code, file=name, says=finding.says, how=how)
    ends, whence = _infer_batch_ends(work, batch)
    _write_offsets(work, batch, _header_from(work, batch), ends)
    return DamageMending(code=finding.code, file=name, says=finding.says, how=f"Rebuilt {whence}.")


def _header_from(work: RepairWork, batch: int) -> bytes:
    for other in (batch + 1, batch - 1):
        if work.offsets(other) is not None:
            return work.read(f"offsets/{other}")
    raise CannotRepair(
        "No offset file next to it is readable, so its header (settings of the state) is lost."
    )


def _infer_batch_ends(work: RepairWork, batch: int) -> tuple[list[str | None], str]:
    """Where a batch ended, per source, and how that is known. Raises CannotRepair where two answers are possible."""
    below, above = work.offsets(batch - 1), work.offsets(batch + 1)
    if below is not None and above is not None:
        pairs = zip(below.sources, above.sources, strict=True)
        return [
            _infer_end_between(a.offset_json, b.offset_json, batch) for a, b in pairs
        ], "from the batches next to it"
    if below is None:
        raise CannotRepair(
            f"The batch before {batch} is not readable, so its end cannot be distinguished from others."
        )
    return _infer_ends_after(work, below, batch), "from the source's log, whose newest entry is this batch's"


def _infer_end_between(low: str | None, high: str | None, batch: int) -> str | None:
    if low == high:
        return low
    a, b = formats.log_offset(low), formats.log_offset(high)
    if b is None or b - (-1 if a is None else a) != 2:
        raise CannotRepair(
            f"Where batch {batch} ended does not follow from the batches next to it. Put the file back "
            "from a backup."
        )
    return json.dumps({"logOffset": b - 1}, separators=(",", ":"))


def _infer_ends_after(work: RepairWork, below: OffsetFile, batch: int) -> list[str | None]:
    """The newest offset file is lost: one file source, no watermark, so each batch has one entry of its own."""
    for number, line in enumerate(below.sources):
        if line.offset_json is not None and formats.log_offset(line.offset_json) is None:
            raise CannotRepair(
                f"Source {number} keeps no log of its batches, so no other file shows where batch {batch} ended. Put "
                f"offsets/{batch} back from a backup, or continue from a position that you name: the progress event of "
                f"batch {batch} in the event log shows it (endOffset)."
            )
    reached = formats.log_offset(below.sources[0].offset_json)
    timed = below.watermark_ms or (commit.watermark_ms if (commit := work.commit(batch)) else 0)
    newest = max(filelog.index_of(work.layout.names("sources/0")), default=-1)
    own = (-1 if reached is None else reached) + 1
    if len(below.sources) != 1 or below.sources[0].key != "0" or newest < own or timed:
        raise CannotRepair(
            f"Where batch {batch} ended does not follow from the source logs alone. Put the file back "
            "from a backup."
        )
    return [json.dumps({"logOffset": own}, separators=(",", ":"))]


def _write_offsets(work: RepairWork, batch: int, template: bytes, ends: Sequence[str | None]) -> None:
    """An offset file with another one's header, at the watermark that the commit before it named."""
    shape = formats.parse_offsets(template)
    lines = formats.text_of(template).split("\n")
    header = formats.object_of(lines[1])
    if batch > 0 and (before := work.commit(batch - 1)) is not None:
        header["batchWatermarkMs"] = before.watermark_ms
    body = [end if end is not None else "-" for end in ends]
    if shape.version > 1:
        body = [f"{s.key}:{line}" for s, line in zip(shape.sources, body, strict=True)]
    text = [lines[0], json.dumps(header, separators=(",", ":"), ensure_ascii=False), *body]
    work.layout.write(f"offsets/{batch}", "\n".join(text).encode())


def mend_commit(work: RepairWork, finding: Finding) -> DamageMending:
    """The newest commit cannot be read: rebuilt where its content is known, else left out where that is harmless."""
    batch, name = _batch_of_finding(finding), _file_of_finding(finding)
    body = None if work.in_sink(batch) is False else _commit_body(work, batch)
    if body is not None:
        work.layout.write(name, body)
        return DamageMending(
            code=finding.code,
            file=name,
            says=finding.says,
            how="Rebuilt: what it held is known from the files next to it.",
        )
    if work.in_sink(batch) is None or work.offsets(batch + 1) is not None:
        raise CannotRepair(
            f"What the commit of batch {batch} held (watermark, ids of state files) is not known."
        )
    work.layout.leave_out(name)
    return DamageMending(
        code=finding.code,
        file=name,
        says=finding.says,
        how=f"Left out: batch {batch} runs again over the same range, and the table "
        + ("skips it." if work.in_sink(batch) else "does not hold it yet."),
    )


def _commit_body(work: RepairWork, batch: int) -> bytes | None:
    """The bytes of commit `batch` in format v1; None: the watermark or ids of state files are not known."""
    following, own = work.offsets(batch + 1), work.offsets(batch)
    others = [c for b in work.batches("commits") if b != batch and (c := work.commit(b)) is not None]
    if not others or any(c.version != 1 for c in others):
        return None
    if following is not None:
        watermark = following.watermark_ms
    elif own is not None and not own.watermark_ms and not any(c.watermark_ms for c in others):
        watermark = 0
    else:
        return None
    return f'v1\n{{"nextBatchWatermarkMs":{watermark}}}'.encode()


def _file_of_finding(finding: Finding) -> str:
    assert finding.file is not None, "every finding of a file names it"
    return finding.file


def _batch_of_finding(finding: Finding) -> int:
    return int(_file_of_finding(finding).rsplit("/", 1)[-1])
