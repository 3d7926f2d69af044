"""What was processed, replayed: for a forecast, for the state of a seed, and for what a proof expects."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from recovery.checkpoints.report import CheckpointReport
from recovery.contracts.readers import SourceReader
from recovery.errors import Refused
from recovery.sources.live.replaying import measure_processed
from recovery.sources.replaying import ProcessedInput
from recovery.spark.api import Rehearsal, Replay, Study, StudyRequest, WholeInput
from recovery.strategies import common, rebuild
from recovery.strategies.base import Facts
from recovery.workflow import inputs, rehearsing
from recovery.workflow.inputs import CountRequest

Request = Callable[[CountRequest], StudyRequest]


def count_rebuilt(
    facts: Facts, told: Study, wanted: CountRequest, request: Request, *, storage: str, limit: int
) -> int | None:
    """Rows that the code writes of what waits, with the state of a replay; None: not counted.

    A replay takes as long as an update over all that was processed: above `limit` bytes none is made for a forecast.
    """
    held = facts.processed
    if (
        rebuild.not_repeatable(facts)
        or held is None
        or held.gaps
        or not storage
        or "waiting" not in wanted.sets
    ):
        return None
    if (by_batch := _by_batch(facts, told)) is not None:
        return by_batch
    if held.size is None or held.size > limit:
        return None
    with replaying_processed(
        request(wanted.only("waiting")), held, facts.checkpoint, storage=storage, purpose="forecast-rebuild"
    ) as found:
        return None if found.problem or found.why else found.rows


def _by_batch(facts: Facts, told: Study) -> int | None:
    """By a batch over all files and one over those that were processed: dropDuplicates without a watermark writes the
    first row of a key, whatever batch it comes in."""
    rows = [told.rows.get(label) for label in ("everything", "processed")]
    whole = common.only_files(facts) and not common.files_of(facts, "ignored")
    if (
        None in rows
        or facts.new_code.operators != ("dedupe",)
        or facts.new_code.watermarked is not False
        or not whole
    ):
        return None
    everything, before = rows
    return None if everything is None or before is None else everything - before


def processed_until(
    report: CheckpointReport,
    readers: Sequence[SourceReader],
    noted: Mapping[str, Mapping[str, str]],
) -> ProcessedInput:
    """What was processed up to the last committed batch of `report`, by these `readers`. Raises Refused where
    it cannot be replayed, Unreachable for input files that cannot be listed."""
    identified = inputs.identify_tables(readers, report.sources)
    held = measure_processed(inputs.inputs_of(report, identified, noted=noted).sources)
    if held.gaps:
        raise Refused(
            f"What was processed cannot be replayed: {held.gaps[0].says} The checkpoint was left alone.",
            code=rebuild.BY_GAP[held.gaps[0].code].value,
        )
    return held


@contextmanager
def replaying_processed(
    request: StudyRequest, held: ProcessedInput, report: CheckpointReport, *, storage: str, purpose: str
) -> Iterator[Rehearsal]:
    """A rehearsal that first replays what was processed, up to the last committed batch of `report`."""
    with rehearsing.rehearse_flow(
        request,
        storage=storage,
        purpose=purpose,
        watermark_ms=report.closed_ms,
        conf=report.conf,
        replay=Replay(
            WholeInput(held.files, {n: part.as_dict() for n, part in held.slices.items()}),
            report.watermark_ms,
            first=report.last_committed == 0,
        ),
    ) as found:
        yield found
