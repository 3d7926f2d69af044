"""Queries that began again beside the rows of before. Pure: no I/O, no database.

A Delta table keeps the newest number of each query by its id (`DeltaSink.addBatch`), and skips a batch that is not
above it without an error. That comes of a checkpoint whose offsets and commits were removed while its id stayed. With a
checkpoint that was removed whole comes a new id: what is read again is written again. Kafka and a function of
`foreachBatch` take every batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from recovery.contracts import codec
from recovery.contracts.updates import QueryBatches
from recovery.pipelines import events as log
from recovery.pipelines.sink_descriptions import SinkClass, read_sink

KEEPING_ROWS: Final = (SinkClass.FILES, SinkClass.DELTA, SinkClass.FUNCTION, SinkClass.KAFKA)


def read_batches(
    events: Sequence[log.ApiEvent], progress: Mapping[str, log.FlowProgress]
) -> dict[str, QueryBatches]:
    """What one update's events say of each flow with a sink that keeps rows, and that had input. A flow whose query
    began under another id within the update is left out: which numbers are whose is not known."""
    batches_by_flow = {}
    for name, newest in progress.items():
        query_id, sink = newest.body.get("id"), read_sink(newest.body)
        if not query_id or sink.kind not in KEEPING_ROWS or len(_ids(events, name)) > 1:
            continue
        if ends := find_ends(events, name):
            first, last = ends
            batches_by_flow[name] = QueryBatches(
                query=f"{sink.identity} {query_id}",
                first=first.number,
                last=last.number,
                first_input=first.input,
                last_input=last.input,
                began_table=log.makes_new_table(events, name),
            )
    return batches_by_flow


def find_ends(events: Sequence[log.ApiEvent], flow: str) -> tuple[log.Batch, log.Batch] | None:
    """The batches of a flow with the lowest and the highest number, of those that had input, though the table may have
    skipped it; None where none had. Of a long run, the lowest may be one that is not kept."""
    took = sorted((b for b in log.batches(events, flow) if b.takes_input), key=lambda b: b.number)
    if not took:
        return None
    first, number = took[0], log.read_first_number(events, flow)
    if number is not None and number < first.number:
        first = replace(first, number=number, input=log.UNSEEN)
    return first, took[-1]


def begins_again(first: int, first_input: str, newest: int, newest_input: str) -> bool:
    """Does a batch use a number that the table has, or may have, for other rows? The newest one with the same input is
    run again where its commit was lost: the table has these very rows. Of files that is never known."""
    is_same_input = first_input == newest_input and first_input not in ("", log.SOME_FILES)
    return first < newest or (first == newest and not is_same_input and first_input != log.UNSEEN)


def find_before(kept: Mapping[str, QueryBatches], ran: QueryBatches) -> QueryBatches | None:
    """The newest batches of before into the same sink. Where a function writes, that may be any one. `kept`: by sink,
    the newest last."""
    if ran.sink in kept:
        return kept[ran.sink]
    newest = next(reversed(list(kept.values())), None)
    return newest if SinkClass.FUNCTION in (ran.sink, newest.sink if newest else "") else None


def goes_straight_on(ran: QueryBatches, before: QueryBatches) -> bool:
    """Whether the numbers go on where the query of before ended, so that only the file that holds its id may be lost.
    Or a run that no log tells of began again."""
    return ran.first == before.last + 1


def reads_again(ran: QueryBatches, before: QueryBatches | None) -> bool:
    """Whether a query began again from its start, or may have, into a sink that has rows of `before`. Another id is
    that of a new checkpoint, also where its first batches were not seen."""
    if before is None:
        return False
    if ran.query_id != before.query_id:
        return not (ran.is_file and ran.first == before.last)  # the table's own numbers decide on that
    takes_all = not ran.is_delta and not ran.is_file
    return takes_all and begins_again(ran.first, ran.first_input, before.last, before.last_input)


def begins_elsewhere(ran: QueryBatches, kept: Mapping[str, QueryBatches]) -> bool:
    """Whether a plain stream began again from its start in another table than before, which is not known to be new: it
    may be the one of before, moved there."""
    is_new_query = bool(kept) and all(ran.query_id != batches.query_id for batches in kept.values())
    return is_new_query and ran.first == 0 and ran.began_table is False


def skips_batches(ran: QueryBatches, before: QueryBatches) -> bool:
    """Whether a Delta table skipped batches, as it had taken batches of these numbers from the same query."""
    is_same = ran.is_delta and ran.query == before.query
    return is_same and begins_again(ran.first, ran.first_input, before.last, before.last_input)


def find_newest(ran: QueryBatches, before: QueryBatches | None) -> QueryBatches:
    """These batches, with the highest number that the sink keeps of the query: it is of `before` where a Delta table
    skipped these."""
    if before is None or before.query != ran.query or not ran.is_delta or before.last <= ran.last:
        return ran
    return codec.change(ran, last=before.last, last_input=before.last_input)


def _ids(events: Sequence[log.ApiEvent], flow: str) -> set[str]:
    mine = [e for e in events if log.flow_name(e) == flow]
    return {str(told.body.get("id") or "") for e in mine for told in log.progress([e]).values()}
