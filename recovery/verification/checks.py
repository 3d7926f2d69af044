"""One function a criterion: expected value and evidence in, what was measured and whether it holds out. Pure."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace

from pydantic import JsonValue

from recovery.checkpoints.report import CheckpointReport
from recovery.contracts import codec
from recovery.contracts.criterion_values import (
    ExpectedCounts,
    ExpectedFiles,
    ExpectedGrowth,
    ExpectedNothing,
    ExpectedOthers,
    ExpectedPosition,
    ExpectedRows,
    MeasuredCounts,
    MeasuredEnd,
    MeasuredFiles,
    MeasuredFurther,
    MeasuredGrowth,
    MeasuredOthers,
    MeasuredPosition,
    MeasuredRowsOnce,
)
from recovery.spark.api import Measure
from recovery.strategies.common import plural
from recovery.strategies.sinks import is_compared
from recovery.verification import row_values, topics
from recovery.verification.evidence import (
    UNSEEN,
    BatchedFiles,
    Evidence,
    ReachedPosition,
    arrivals,
    batches,
    measured_from,
    new_data_files,
    new_inputs,
)
from recovery.verification.finding import CriterionFinding, key_of, not_yielded

SHOWN = 5  # names in a sentence


def first_batch_at_position(expected: ExpectedPosition, evidence: Evidence) -> CriterionFinding:
    """The batch number and the start offset of every source, by progress event and by checkpoint."""
    if evidence.new is None:
        return unknown("The checkpoint could not be read after the rerun.")
    batch = expected.batch or 0
    offsets = [_value(o) for o in expected.offsets]
    on_disk = _offsets_before(evidence.new, batch)
    if on_disk is not None and on_disk != offsets:
        return CriterionFinding(
            _position(batch, on_disk), False, "The checkpoint starts this batch somewhere else."
        )
    first = evidence.first_batch
    if first is not None:
        started = [_value(o) for o in first.start_offsets]
        measured = _position(first.batch, started)
        if (first.batch, started) != (batch, offsets):
            return CriterionFinding(
                measured, False, f"The first new batch is {first.batch}, and not where it was planned."
            )
        return CriterionFinding(measured, True, f"Batch {batch} began exactly there, by its progress event.")
    committed = _committed(evidence.new)
    if on_disk is None or batch not in committed:
        return _nothing_due(batch, offsets, evidence)
    return CriterionFinding(
        _position(batch, on_disk), True, f"Batch {batch} began exactly there, by the checkpoint."
    )


def _position(batch: int | None, offsets: Iterable[JsonValue]) -> MeasuredPosition:
    return MeasuredPosition(batch=batch, offsets=tuple(offsets))


def _nothing_due(batch: int, offsets: list[JsonValue], evidence: Evidence) -> CriterionFinding:
    """No new batch: right where no file waited and the checkpoint still stands at the position."""
    new = evidence.new
    if new is None or evidence.old is None or evidence.listed is None:
        return unknown("No batch was seen, and it is not known whether one was due.")
    stands = [_value(s.offset_json) for s in new.sources]
    waited = _listed(evidence) - _files(batches(evidence.scope, evidence.old, new).before)
    waited |= {str(n) for n, r in evidence.reached.items() if not r.left_empty}
    if batch and new.last_committed == batch - 1 and stands == offsets and not waited:
        nothing = "Nothing" if evidence.reached else "No file"
        return CriterionFinding(
            _position(None, stands),
            True,
            f"{nothing} waited, so no batch was due; the position is as planned.",
        )
    return unknown(f"No committed batch {batch} was seen in the checkpoint or among the progress events.")


def each_file_once(expected: ExpectedFiles, evidence: Evidence) -> CriterionFinding:
    """Every listed file in exactly one committed batch, source by source; of other sources, everything up to what
    was there before the rerun. Their batches have no gap and no overlap: each begins where the last one ended."""
    if evidence.old is None or evidence.new is None or evidence.listed is None:
        return unknown("The checkpoint or the list of input files could not be read.")
    if expected.scope not in ("", evidence.scope):
        return unknown(f"The plan speaks of scope {expected.scope}, measured was {evidence.scope}.")
    held = batches(evidence.scope, evidence.old, evidence.new)
    missing, twice, total = [], [], 0
    for index in sorted({*evidence.listed, *held.before, *held.after}):
        times = Counter([*held.before.get(index, ()), *held.after.get(index, ())])
        total += len(times)
        twice += [p for p, n in sorted(times.items()) if n > 1]
        missing += [p for p in sorted(set(evidence.listed.get(index, ()))) if not times[p]]
    in_batches = _files(held.before) | _files(held.after)
    left = tuple(path for path in evidence.passed_over if path not in in_batches)
    measured = MeasuredFiles(
        files=total, missing=len(missing), more_than_once=len(twice), passed_over=len(left)
    )
    if evidence.reached:
        ends = {str(n): _value(r.end) for n, r in evidence.reached.items()}
        measured = codec.change(measured, positions=ends)
        if short := _short_of(evidence, measured):
            return short
    if missing or twice:
        return CriterionFinding(measured, False, _bad_files(missing, twice))
    known = _count_known(evidence.listed, held)
    if known < (expected.files or 0):
        return CriterionFinding(
            measured, False, f"The plan knew {expected.files} files, and only {known} are known now."
        )
    late = arrivals(evidence)
    more = (
        f" {plural(len(late), 'file')} arrived after the plan was sealed: {names_of(late)}." if late else ""
    )
    read = f"{plural(total, 'file')}, each in one batch." if total or not evidence.reached else ""
    beside = f" {_all_read(evidence.reached)}" if evidence.reached else ""
    without = (
        f" Spark passes over {plural(len(left), 'more file')} (maxFileAge, fileNameOnly), whose rows are in no table: "
        f"{names_of(left)}."
        if left
        else ""
    )
    return CriterionFinding(measured, True, f"{read}{beside}{more}{without}".strip())


def _count_known(listed: Mapping[int, Iterable[str]], held: BatchedFiles) -> int:
    """Files that were ever seen, source by source: two that read one folder count a file twice, as a plan does."""
    seen = (listed, held.before, held.after)
    return sum(len({path for files in seen for path in files.get(n, ())}) for n in set().union(*seen))


def _short_of(evidence: Evidence, measured: MeasuredFiles) -> CriterionFinding | None:
    """A source whose batches did not come to where it ended before the rerun; None: all did."""
    short = [str(n) for n, r in evidence.reached.items() if r.left_empty is False]
    unknown = [str(n) for n, r in evidence.reached.items() if r.left_empty is None]
    if short:
        says = f"Source {', '.join(short)} was not read to where it ended before the rerun."
        return CriterionFinding(measured, False, says)
    if unknown:
        return CriterionFinding(
            measured, None, f"Source {', '.join(unknown)} could not be asked how far it goes."
        )
    return None


def _all_read(reached: Mapping[int, ReachedPosition]) -> str:
    which = ", ".join(f"{n} ({r.kind})" for n, r in sorted(reached.items()))
    return f"Source {which}: every batch began where the one before it ended, and all that waited was read."


def table_grew_by_new_batches(expected: ExpectedGrowth, evidence: Evidence) -> CriterionFinding:
    """Rows of the whole table, before and after, beside the rows in the data files of the new batches."""
    measure, problem = usable(evidence)
    before = expected.before
    if before is None and measure is not None:  # the plan knew no number; what the rerun found there is known
        before = measure.old_rows
    if measure is None or before is None or measure.table_rows is None or measure.new_rows is None:
        return unknown(problem or "The rows of the table before or after are not known.")
    grew = measure.table_rows - before
    measured = MeasuredGrowth(before=before, after=measure.table_rows, new_batches=measure.new_rows)
    if measure.listed_rows != measure.table_rows:
        return CriterionFinding(
            measured,
            False,
            f"The table shows {plural(measure.table_rows, 'row')}, but the files in its log hold "
            f"{measure.listed_rows if measure.listed_rows is not None else 'an unknown number'}.",
        )
    if measure.vanished:
        says = f"{plural(measure.vanished, 'row')} that the table had before the rerun are no longer in it."
        return CriterionFinding(codec.change(measured, vanished=measure.vanished), False, says)
    if grew != measure.new_rows:
        return CriterionFinding(
            measured,
            False,
            f"The table grew by {plural(grew, 'row')}, the new batches wrote {measure.new_rows}.",
        )
    return CriterionFinding(
        measured, True, f"{before:,} + {measure.new_rows:,} = {plural(measure.table_rows, 'row')}."
    )


def every_row_once(expected: ExpectedRows, evidence: Evidence) -> CriterionFinding:
    """What the code yields over the new input files, and what the new data files hold: the same rows.

    `expected.inferred`: log entries whose files were guessed. Which rows had to be there is open then.
    """
    found = _rows_compared(expected, evidence)
    if found.ok is True and evidence.replaced_files:
        files = plural(evidence.replaced_files, "file")
        says = (
            f"{files} that an earlier batch had read held something else when the rerun read it again. Rows that only "
            "the earlier content had are no longer in the table, and how many is not known."
        )
        return replace(found, ok=None, why=f"{found.why} {says}")
    if found.ok is not True or not expected.inferred:
        return found
    says = (
        f"Which files {', '.join(expected.inferred)} had named was inferred, so a file that counts as read may never "
        "have been. Look whether the table has the rows of the files that the plan names for it."
    )
    return replace(found, ok=None, why=f"{found.why} {says}")


def _rows_compared(expected: ExpectedRows, evidence: Evidence) -> CriterionFinding:
    measure, problem = usable(evidence)
    if evidence.sink_after is not None and not is_compared(evidence.sink_after):
        return unknown(f"Rows cannot be compared at a sink of kind {evidence.sink_after.kind}.")
    if (
        measure is None
        or measure.missing is None
        or measure.extra is None
        or None in (measure.expected_rows, measure.new_rows)
    ):
        return unknown(problem or "The rows could not be compared.")
    planned = [k.lower() for k in expected.key or ()]
    if planned and planned != [k.lower() for k in measure.key]:
        return unknown(f"The plan identifies rows by {', '.join(planned)}; measured was {key_of(measure)}.")
    if measure.strange is not None:
        return topics.every_row_once(expected, measure)
    added = measure.repeats_added
    measured = MeasuredRowsOnce(
        expected=measure.expected_rows,
        found=measure.new_rows,
        missing=measure.missing,
        extra=measure.extra,
        repeats_added=added,
        repeats_expected=measure.duplicates_explained,
        held_before=measure.held_before,
        key=measure.key,
        table_only=measure.table_only,
    )
    measured = row_values.add_values(measured, measure)
    if measure.missing or measure.extra or measure.expected_rows != measure.new_rows:
        by = row_values.compared_by(expected, replace(measure, values=None))
        says = f"{by[0].upper()}{by[1:]}: {plural(measure.missing, 'row')} missing, {measure.extra} too many."
        return CriterionFinding(measured, False, says)
    chosen = expected.again  # rows that were read before are read again, and the plan said so
    # equal rows repeat equally often whatever the table had before: that needs no look at it
    known = added is not None or measure.looked_up
    if known and not chosen and (added is None or added != measure.duplicates_explained):
        return CriterionFinding(measured, False, "The table has repeats that the input does not explain.")
    if judged := row_values.judge_values(measure, measured):
        return judged
    if unsettled := _open_batch(expected, measure, added):
        return CriterionFinding(measured, None, unsettled)
    says = f"{plural(measure.new_rows or 0, 'new row')}, {row_values.compared_by(expected, measure)}."
    says += _repeats(measure, added or 0, chosen=chosen) + not_yielded(measure.table_only)
    return CriterionFinding(measured, True, says)


def _open_batch(expected: ExpectedRows, measure: Measure, added: int | None) -> str:
    """Why rows that the table held before may be doubled; "" where that is excluded.

    `expected.open`: a batch that was planned and never committed, and that the table may have had all the same. The
    rerun read its input again, and a row that stood there before looks the same whether that batch wrote it or not.
    """
    batch = expected.open
    held = measure.held_before if measure.held_before is not None else added
    if batch is None or held == 0:
        return ""
    rows = "Rows" if held is None else plural(held, "row")
    return (
        f"{rows} that the rerun wrote were in the table before. Batch {batch} had been planned and was never "
        "committed, and it is not known whether the table had taken it: if it had, they are there twice. Compare them "
        "with the input by hand."
    )


def _repeats(measure: Measure, added: int, *, chosen: bool) -> str:
    """Sentences on repeats that came with the rows of the rerun: of what the table held, and of the new input."""
    held = measure.held_before
    if not added:
        return ""
    if chosen or held is None:
        why = "were read a second time, as planned, or repeat a key" if chosen else "repeat a key"
        return f" {plural(added, 'row')} of them {why} that the table held before or the input repeats."
    of_input = added - held
    says = f" {plural(held, 'row')} of them repeat a key that the table held before." if held else ""
    if of_input > 0:
        says += f" {plural(of_input, 'row')} of them repeat a key because the input does."
    return says


def counts_equal_forecast(expected: ExpectedCounts, evidence: Evidence) -> CriterionFinding:
    """Measured counts beside those of the sealed forecast, to the row."""
    measure, problem = usable(evidence)
    if measure is None:
        return unknown(problem)
    got = {
        "new_rows": measure.new_rows,
        "table_after": measure.table_rows,
        "lost": measure.missing,
        "doubled": measure.extra,
    }
    wanted = {name: getattr(expected, name) for name in got if getattr(expected, name) is not None}
    if not wanted or expected.model_extra:
        return unknown("The plan has no forecast that can be measured.")
    late = arrivals(evidence)
    beyond = [str(n) for n, r in evidence.reached.items() if r.arrived]
    if (late or beyond) and evidence.arrived_rows is None:
        came = plural(len(late), "file") if late else f"More of source {', '.join(beyond)}"
        return unknown(f"{came} arrived after the forecast, and their rows were not counted.")
    if measure.strange:
        return topics.written_by_others(measure)
    more = (evidence.arrived_rows or 0) if late or beyond else 0
    for name in ("new_rows", "table_after"):
        if name in wanted:
            wanted[name] += more
    measured = MeasuredCounts.model_validate({name: got[name] for name in wanted})
    if any(got[name] is None for name in wanted):
        return CriterionFinding(measured, None, "Not every count could be measured.")
    wrong = [name for name in wanted if got[name] != wanted[name]]
    if wrong:
        says = "; ".join(f"{n.replace('_', ' ')}: {got[n]} instead of {wanted[n]}" for n in wrong)
        return CriterionFinding(measured, False, f"Not as forecast: {says}.")
    says = (
        "Exactly as forecast."
        if not more
        else f"As forecast, and {plural(more, 'row')} of {'input' if beyond else 'files'} that came later."
    )
    return CriterionFinding(measured, True, says)


def nothing_else_changed(expected: ExpectedOthers, evidence: Evidence) -> CriterionFinding:
    """Fingerprints of other flows' checkpoints and other tables, before and after. `expected.ran`: those that the
    recovery's own updates write too; they are named, and nothing is claimed of them."""
    ran = set(expected.ran)
    before, after = _without(evidence.others_before, ran), _without(evidence.others_after, ran)
    if before is None or after is None or None in before.values() or None in after.values():
        return unknown("Not every other checkpoint and table could be read.")
    changed = sorted(n for n in before.keys() & after.keys() if before[n] != after[n])
    gone, new = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
    measured = MeasuredOthers(watched=len(before), changed=(*changed, *gone, *new))
    if ran:
        measured = codec.change(measured, ran=tuple(sorted(ran)))
    parts = [
        f"{word}: {names_of(names)}"
        for word, names in (("changed", changed), ("gone", gone), ("new", new))
        if names
    ]
    if parts:
        return CriterionFinding(measured, False, f"Besides this flow, {'; '.join(parts)}.")
    return CriterionFinding(
        measured, True, " ".join(filter(None, (_watched(list(before), ran), _ran_too(ran))))
    )


def _without(prints: Mapping[str, str | None] | None, ran: Set[str]) -> dict[str, str | None] | None:
    return None if prints is None else {name: held for name, held in prints.items() if name not in ran}


def _ran_too(ran: Set[str]) -> str:
    if not ran:
        return ""
    return f"The updates of this recovery write here too, and what they wrote is not known: {names_of(sorted(ran))}."


def _watched(names: Sequence[str], ran: Set[str]) -> str:
    """What was compared, and how: no more is claimed."""
    if not names and ran:
        return ""
    if not names:
        return "There is no other checkpoint and no other table that could be watched."
    told = ", ".join(sorted(names)[:SHOWN]) + (
        f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    )
    return f"Watched: {told}. Their files kept their names, sizes and times."


def further_update_adds_nothing(expected: ExpectedNothing, evidence: Evidence) -> CriterionFinding:
    """One more update: as many rows and the same data files as before it."""
    further = evidence.further
    if further is None:
        return unknown("It was not run.")
    if further.state == UNSEEN:
        return unknown("Nothing shows that it began.")
    if further.state != "COMPLETED":
        return CriterionFinding(MeasuredEnd(state=further.state), False, f"It ended as {further.state}.")
    sides = (further.rows_before, further.rows_after, further.files_before, further.files_after)
    if None in sides:
        return unknown("The table could not be read before or after it.")
    files = sorted(set(further.files_before or ()) ^ set(further.files_after or ()))
    measured = MeasuredFurther(
        rows_before=further.rows_before, rows_after=further.rows_after, data_files=len(files)
    )
    if further.rows_before == further.rows_after and not files and not further.arrived:
        return CriterionFinding(measured, True, f"Still {plural(further.rows_after or 0, 'row')}.")
    if came := further.arrived or further.waited:
        word = "arrived meanwhile" if further.arrived else "waited unread and was read by it"
        says = f"{plural(len(came), 'input')} {word} ({names_of(came)}), so what it added proves nothing; verify again."
        return CriterionFinding(measured, None, says)
    grew = (further.rows_after or 0) - (further.rows_before or 0)
    if evidence.measure is not None and evidence.measure.strange is not None:
        return topics.more_came(measured, grew)
    return CriterionFinding(
        measured, False, f"It changed the table by {plural(grew, 'row')} without new input."
    )


def usable(evidence: Evidence) -> tuple[Measure | None, str]:
    """The measure, if it looked at exactly the inputs and data files of the new batches; else why not."""
    measure = evidence.measure
    if measure is None:
        return None, "Spark did not measure the table."
    if None in (evidence.old, evidence.new, evidence.sink_before, evidence.sink_after):
        return None, "The checkpoint or the table's log could not be read."
    inputs, files = _should_measure(evidence)
    if set(evidence.measured_inputs) != set(inputs):
        return None, "Measured were other input files than those the new batches hold; verify again."
    if set(evidence.measured_files) != set(files):
        return None, "Measured were other data files than those the new batches wrote; verify again."
    if wrong := _other_input(evidence):
        return None, wrong
    return measure, measure.problem or ""


def _other_input(evidence: Evidence) -> str:
    """Why a measure over sources or tables that are no files does not count; "" where it does."""
    for index, source in sorted(evidence.reached.items()):
        if source.measured is None:
            return f"What source {index} yielded could not be read again, so its rows could not be compared."
        if source.measured != (source.start, source.end):
            return f"Of source {index} another stretch was measured than the new batches read; verify again."
    before = evidence.sink_before
    if before is not None and evidence.measured_since != measured_from(evidence.scope, before):
        return "The table was measured since another version than it had before the rerun; verify again."
    return ""


def _should_measure(evidence: Evidence) -> tuple[tuple[str, ...], tuple[str, ...]]:
    old, new, before, after = evidence.old, evidence.new, evidence.sink_before, evidence.sink_after
    if old is None or new is None or before is None or after is None:
        return (), ()
    return new_inputs(evidence.scope, old, new), new_data_files(evidence.scope, before, after)


def _committed(report: CheckpointReport) -> set[int]:
    return {b["batch"] for b in report.batches if b.get("committed")}


def _offsets_before(report: CheckpointReport, batch: int) -> list[JsonValue] | None:
    """End offsets of the batch before, as the checkpoint holds them; None where they are not there."""
    if batch == 0:
        return [None for _ in report.sources]
    for entry in report.batches:
        if entry["batch"] == batch - 1 and entry.get("offsets"):
            return [_value(o) for o in entry["offsets"]]
    return None


def _value(offset: JsonValue) -> JsonValue:
    """An offset as a value: `{"logOffset":2}` as text or as object, `-` and null as None."""
    if not isinstance(offset, str):
        return offset
    if offset in ("-", "", "null"):
        return None
    try:
        value: JsonValue = json.loads(offset)
    except ValueError:
        return offset
    return value


def _listed(evidence: Evidence) -> set[str]:
    return _files(evidence.listed or {})


def _files(by_source: Mapping[int, Iterable[str]]) -> set[str]:
    return {path for paths in by_source.values() for path in paths}


def _bad_files(missing: Sequence[str], twice: Sequence[str]) -> str:
    parts = []
    if missing:
        parts.append(f"{plural(len(missing), 'file')} in no committed batch: {names_of(missing)}.")
    if twice:
        parts.append(f"{plural(len(twice), 'file')} in more than one batch: {names_of(twice)}.")
    return " ".join(parts)


def names_of(paths: Sequence[str]) -> str:
    """The first of them by their last part, and how many more there are."""
    shown = ", ".join(p.rsplit("/", 1)[-1] for p in paths[:SHOWN])
    return shown if len(paths) <= SHOWN else f"{shown} and {len(paths) - SHOWN} more"


def unknown(why: str) -> CriterionFinding:
    """What could not be measured, and why."""
    return CriterionFinding(None, None, why)
