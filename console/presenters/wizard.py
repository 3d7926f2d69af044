"""What the wizard's pages say: the three questions, the ladder, the comparison, the bar. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from console.presenters import efforts, status, words
from console.presenters import positions as starts
from console.presenters.checkpoint import step_words
from console.presenters.flow import say_damage
from console.presenters.inventory import waiting_elsewhere
from recovery.checkpoints.uris import strip_file_scheme
from recovery.contracts.amounts import OpenGroup, OpenWindow, ReadField, RowAmount
from recovery.contracts.diagnosis import Diagnosis
from recovery.contracts.facts import GatheredFacts
from recovery.contracts.forecast import Forecast
from recovery.contracts.names import EMPTYING, ChangeIntent, Strategy
from recovery.contracts.option import Option
from recovery.contracts.positions import LabelledPosition, MovedPart, NextInput, PartMove, PositionChange
from recovery.diagnosis.advice import asks_meant
from recovery.diagnosis.advice import recommend_advice as recommended_advice
from recovery.diagnosis.row import SEVERITIES
from recovery.diagnosis.verdict import StepFit, stateful_steps
from recovery.strategies.catalogue import needs_start, needs_target, settled_later
from recovery.strategies.common import word
from recovery.strategies.recommending import may_be_preselected, recommended_strategy


@dataclass(frozen=True)
class Link:
    href: str
    word: str


@dataclass(frozen=True)
class Primary:
    """The one primary button: a link (`href`), a form elsewhere on the page (`form`), or its own (`post`)."""

    word: str
    href: str = ""
    form: str = ""
    post: str = ""
    name: str = ""
    value: str = ""


@dataclass(frozen=True)
class ActionBar:
    """What the primary act does is beside it, before it is pressed; `why_not` disables it with the reason."""

    effect: str
    more: str
    primary: Primary | None = None
    links: Sequence[Link] = field(default_factory=tuple)
    why_not: str | None = None
    #: what the bar says, stable where its words are not: `data-code` of the page
    code: str = ""


@dataclass(frozen=True)
class TroubleAnswer:
    ask: str
    answer: str
    text: str
    #: which answer this is, for `data-code` of the page
    code: str = ""


def trouble_summary(
    diagnosis: Diagnosis,
    facts: GatheredFacts,
    *,
    has_plan: bool = False,
    is_over: bool = False,
    is_outdated: bool = False,
) -> list[TroubleAnswer]:
    """What happened, how bad, safe to wait: in this order on every page that begins with trouble. `has_plan`: is one in
    force? `is_over`: has the recovery ended? `is_outdated`: may what the facts say waits have been read since?"""
    bad = SEVERITIES.get(diagnosis.severity, SEVERITIES[3]).capitalize()
    rows = f" {_waiting_text(facts)} wait to be read." if facts.is_ready and not is_outdated else ""
    return [
        TroubleAnswer(
            "What happened",
            diagnosis.title or "The flow failed",
            diagnosis.says,
        ),
        TroubleAnswer("How bad", bad, (say_damage(diagnosis) + rows).strip() or "Not known yet."),
        _waiting_is_over() if is_over else safe_to_wait(facts, has_plan=has_plan),
    ]


def _waiting_is_over() -> TroubleAnswer:
    return TroubleAnswer(
        "Safe to wait?",
        "This recovery has ended",
        "Nothing of it waits any more. What the flow has yet to read is on the flow's page.",
        "recovery-ended",
    )


def _waiting_text(facts: GatheredFacts) -> str:
    """`8 rows in 3 files`; files are named only where they are all that is read."""
    rows = waiting_elsewhere(facts.positions)
    if rows is not None:
        return words.format_count(rows, "row")
    files = words.format_count(len(facts.waiting_files), "file")
    return f"{words.format_count(facts.waiting_rows, 'row')} in {files}"


def safe_to_wait(facts: GatheredFacts, *, has_plan: bool = False) -> TroubleAnswer:
    """Whether what waits to be read can still be read, by the facts of a recovery."""
    option = facts.option_of(Strategy.CONTINUE) if facts.is_ready else None
    places = option.positions if option else ()
    readable = [place.readable for place in places]
    if not readable and has_plan:
        return TroubleAnswer(
            "Safe to wait?",
            "See the plan",
            "What can still be read was read when the plan was sealed: it is in Review. "
            "Waiting makes the table older; it does not start anything.",
            "in-the-plan",
        )
    if not readable:
        return TroubleAnswer(
            "Safe to wait?",
            "Not known yet",
            "Step 3 reads whether everything that waits is still there. "
            "Waiting makes the table older; it does not start anything.",
            "not-asked-yet",
        )
    says = ", ".join(one.says for one in readable)
    files = all(place.is_files for place in places)
    ends = [place.until_ms for place in places if place.until_ms]
    until = f", the first of it until {words.format_date(min(ends))}" if ends else ""
    if all(one.ok for one in readable):
        return TroubleAnswer(
            "Safe to wait?",
            "Yes, as long as the files stay" if files else "Yes, until retention takes what waits",
            f"{says[:1].upper()}{says[1:]} can be read now{until}. Waiting makes the table older, nothing else.",
            "while-files-stay" if files else "until-retention",
        )
    if not any(one.ok is False for one in readable):
        return TroubleAnswer(
            "Safe to wait?",
            "Not known",
            "Not every source could be asked what it still holds: look again, or see the flow's page. "
            "Waiting makes the table older; it does not start anything.",
            "not-known",
        )
    return TroubleAnswer(
        "Safe to wait?",
        "No",
        f"Only {says} can still be read. What is gone does not come back by waiting.",
        "gone",
    )


@dataclass(frozen=True)
class AdviceRung:
    title: str
    text: str = ""
    tags: tuple[str, ...] = ()
    first: bool = False
    root: bool = False
    #: which choice this is, for `data-code` of the page
    code: str = ""


def advice_ladder(
    diagnosis: Diagnosis, meant: ChangeIntent | None, options: Sequence[Option] = ()
) -> list[AdviceRung]:
    """The diagnosis' advice, safest first, as it is ordered there; one is recommended once it is known which.

    `options`: the strategies as they were counted; then nothing else is recommended here than beside their numbers.
    """
    advice = diagnosis.advice
    best = recommended_advice(advice, meant)
    if options and best is not None and best.strategy:
        counted = recommended_strategy(options, diagnosis, meant)
        best = next((item for item in advice if item.strategy == counted), None)
    undo = {True: ("Can be undone",), False: ("Cannot be undone",), None: ()}
    return [
        AdviceRung(
            item.says,
            tags=(*(("Recommended",) if item is best else ()), *undo[item.undoable]),
            first=item is best,
            code=f"advice-{item.strategy}" if item.strategy else "",
        )
        for item in advice
    ]


@dataclass(frozen=True)
class MeantQuestion:
    """Was the change meant? Asked once, before anything is recommended. `answers`: value, word, whether it is given."""

    answers: Sequence[tuple[str, str, bool]]
    answered: bool


def meant_question(diagnosis: Diagnosis, meant: ChangeIntent | None) -> MeantQuestion | None:
    """None where what is right does not hang on it."""
    if not asks_meant(diagnosis.advice):
        return None
    words_of = {
        ChangeIntent.YES: "Yes, it was meant",
        ChangeIntent.NO: "No, it was a mistake",
        ChangeIntent.UNKNOWN: "I do not know",
    }
    return MeantQuestion([(m.value, says, m is meant) for m, says in words_of.items()], meant is not None)


@dataclass(frozen=True)
class ComparedOperator:
    number: int
    held: str
    in_code: str
    badge: status.Badge
    means: str


def operator_rows(diagnosis: Diagnosis) -> list[ComparedOperator]:
    """Stateful operators, checkpoint against code, by place."""
    operators = diagnosis.operators
    return [
        ComparedOperator(
            step.place,
            _operator_name(step.held),
            "not known" if step.fit is StepFit.UNKNOWN else _operator_name(step.in_code),
            *step_words(step),
        )
        for step in stateful_steps(operators.checkpoint, operators.code)
    ]


def _operator_name(operator: str | None) -> str:
    if not operator:
        return "none"
    people = word(operator)
    return people if people == operator else f"{people} ({operator})"


@dataclass(frozen=True)
class ComparedCell:
    """One cell of the comparison: a big number with its unit, or words; what is under it; its badge."""

    text: str = ""
    big: str = ""
    unit: str = ""
    small: str = ""
    bad: bool = False
    badge: status.Badge | None = None
    #: which answer this is, for `data-code` of the page
    code: str = ""


@dataclass(frozen=True)
class StrategyColumn:
    strategy: str
    summary: str
    recommended: bool
    blocked: str | None
    disabled: bool
    checked: bool


@dataclass(frozen=True)
class ComparedLine:
    question: str
    cells: list[tuple[StrategyColumn, ComparedCell]]


@dataclass(frozen=True)
class StrategyComparison:
    """`folded`: strategies that cannot be chosen here, with their reason."""

    columns: list[StrategyColumn]
    lines: list[ComparedLine]
    folded: list[efforts.FoldedWay]


def compare_strategies(
    options: Sequence[Option],
    chosen: str,
    executable: Sequence[str],
    *,
    recommended: str,
    sink: bool = False,
) -> StrategyComparison:
    """Strategies that can be chosen as columns, questions as rows. The chosen one is checked, else the recommended
    one, unless it cannot be undone. `recommended`: `recommending.recommended_strategy`.

    `sink`: what is written is no table, so no one asks what is in it afterwards.
    """
    best = next((o for o in options if o.strategy == recommended), None)
    wanted = chosen or (recommended if best is not None and may_be_preselected(best) else "")
    unable = [o for o in options if _is_closed(o, executable)]
    folded = [o for o in unable if o.strategy != wanted]
    shown = [o for o in options if o not in folded]
    columns = [
        StrategyColumn(
            strategy=o.strategy.value,
            summary=o.summary,
            recommended=o.strategy == recommended,
            blocked=o.blocked,
            disabled=o in unable,
            checked=o.strategy == wanted,
        )
        for o in shown
    ]
    lines = [
        ComparedLine(q, list(zip(columns, cells, strict=True)))
        for q, cells in _compare_questions(shown, sink=sink)
    ]
    return StrategyComparison(columns, lines, efforts.list_folded(folded))


def _is_closed(option: Option, executable: Sequence[str]) -> bool:
    """Whether nothing that this recovery still asks lets it run."""
    return option.strategy not in executable or (bool(option.blocked) and not settled_later(option))


def _compare_questions(options: Sequence[Option], *, sink: bool) -> list[tuple[str, list[ComparedCell]]]:
    forecasts = [o.forecast for o in options]
    above, below = efforts.effort_lines(options)
    return [
        ("Can it run?", [_can_run_cell(o) for o in options]),
        *((line.question, [_effort_cell(cell) for cell in line.cells]) for line in above),
        *_duration_rows(options),
        *_rows_of(options),
        *((line.question, [_effort_cell(cell) for cell in line.cells]) for line in below),
        ("Rows sent", [ComparedCell(words.format_count(forecast.new_rows, "row")) for forecast in forecasts])
        if sink
        else ("Table after", [_table_after_cell(forecast) for forecast in forecasts]),
        ("State", [_effort_cell(efforts.state_cell(o)) for o in options]),
        ("Tables below", [_effort_cell(efforts.below_cell(forecast)) for forecast in forecasts]),
        ("Code change live?", [ComparedCell(o.code_live) for o in options]),
        ("Sink meanwhile" if sink else "Table meanwhile", [ComparedCell(o.table_meanwhile) for o in options]),
        ("Undo until", [_effort_cell(efforts.undo_cell(o)) for o in options]),
    ]


def _effort_cell(effort: efforts.EffortCell) -> ComparedCell:
    return (
        ComparedCell(big=effort.text, small=effort.small, bad=True)
        if effort.bad
        else ComparedCell(effort.text, small=effort.small)
    )


def _rows_of(options: Sequence[Option]) -> list[tuple[str, list[ComparedCell]]]:
    return [
        ("Rows lost", [_amount_cell(o.forecast.lost, bad=not _never_runs(o)) for o in options]),
        ("Rows doubled", [_amount_cell(o.forecast.doubled, bad=not _never_runs(o)) for o in options]),
        ("Read again", [_amount_cell(o.forecast.reread) for o in options]),
    ]


def _can_run_cell(option: Option) -> ComparedCell:
    if needs_start(option):
        badge = status.Badge("attention", "Needs a start")
        return ComparedCell(badge=badge, small=str(option.blocked), code="needs-a-start")
    if needs_target(option):
        badge = status.Badge("attention", "Needs a target")
        return ComparedCell(badge=badge, small=str(option.blocked), code="needs-a-target")
    if option.blocked:
        return ComparedCell(badge=status.Badge("failed", "Blocked"), small=option.blocked, code="blocked")
    empties, forecast = option.strategy in EMPTYING, option.forecast
    if empties or forecast.lost.possible or forecast.doubled.possible:
        return ComparedCell(badge=status.Badge("attention", "Yes, with care"), code="with-care")
    return ComparedCell(badge=status.Badge("ok", "Yes"), code="can-run")


def _never_runs(option: Option) -> bool:
    """Whether a strategy is blocked that would have no number: what is not known of it harms no one."""
    untold = option.forecast.lost.rows is None or option.forecast.doubled.rows is None
    return bool(option.blocked) and untold


def _amount_cell(amount: RowAmount, *, bad: bool = False) -> ComparedCell:
    rows, why, said = amount.rows, amount.why, amount.bound.value
    if rows is None:
        return ComparedCell(big="not known", small=why, bad=bad)
    return ComparedCell(
        big=words.format_number(rows),
        unit="row" if rows == 1 else "rows",
        small=f"{said}: {why}" if why and amount.possible else said,
        bad=bad and amount.possible,
    )


def _table_after_cell(forecast: Forecast) -> ComparedCell:
    grown, after = forecast.new_rows, forecast.table_after
    plus = "" if grown is None else f"{words.format_count(grown, 'row')} written"
    return ComparedCell("not known" if after is None else words.format_count(after, "row"), small=plus)


def _duration_rows(options: Sequence[Option]) -> list[tuple[str, list[ComparedCell]]]:
    """How long each takes; no row where none of it is known and none was measured."""
    if all(o.forecast.seconds is None and o.effort is None for o in options):
        return []
    return [("Takes about", [_effort_cell(efforts.time_cell(o)) for o in options])]


@dataclass(frozen=True)
class ForecastNumber:
    """One of the three numbers of a forecast, in words."""

    #: lost, doubled or reread
    code: str
    #: None where they were not counted
    count: int | None
    word: str
    rows: str
    #: "" where they were not counted, as `tag`
    unit: str
    tag: str
    why: str
    bad: bool

    @property
    def text(self) -> str:
        """`136 rows (at most)`; `not known`."""
        return f"{self.rows} {self.unit} ({self.tag})" if self.unit else self.rows


def forecast_view(forecast: Forecast) -> list[ForecastNumber]:
    """Lost, doubled, read again: three honest numbers."""
    named = (
        ("lost", "Lost", forecast.lost),
        ("doubled", "Doubled", forecast.doubled),
        ("reread", "Read again", forecast.reread),
    )
    return [_forecast_number(code, name, amount) for code, name, amount in named]


def _forecast_number(code: str, name: str, amount: RowAmount) -> ForecastNumber:
    rows = amount.rows
    span = f" {words.format_count(amount.files, 'file')}"
    span += f", {amount.start} to {amount.end}." if amount.start else "."
    return ForecastNumber(
        code,
        rows,
        name,
        "not known" if rows is None else words.format_number(rows),
        "" if rows is None else "row" if rows == 1 else "rows",
        "" if rows is None else amount.bound.value,
        amount.why + (span if amount.files else ""),
        code != "reread" and amount.possible,
    )


@dataclass(frozen=True)
class LostWindow:
    """One window whose groups are in the state alone: its bounds, "" for an end that is not known, and its groups."""

    start: str
    end: str
    groups: str
    #: key and values so far of the first of them: `Berlin`, `count 14`
    first: tuple[tuple[str, str], ...]
    #: how many further groups it has
    more: int
    #: how much event time has to pass until it is written; "" where the watermark or its end is not known
    waits: str


@dataclass(frozen=True)
class LostWindows:
    """The first windows of what is lost, and how many groups they are of how many."""

    rows: tuple[LostWindow, ...]
    listed: int
    of: int | None
    #: to the second; "" where it is not known
    watermark: str = ""


def lost_windows(lost: RowAmount, watermark_ms: int | None = None) -> LostWindows | None:
    """Of the rows that a forecast loses; None where none are named. `watermark_ms`: of the last committed batch."""
    if not lost.windows:
        return None
    rows = tuple(_window_row(window, watermark_ms) for window in lost.windows)
    watermark = "" if watermark_ms is None else _to_the_second(watermark_ms)
    return LostWindows(rows, sum(window.groups for window in lost.windows), lost.rows, watermark)


def _window_row(window: OpenWindow, watermark_ms: int | None) -> LostWindow:
    still = (window.end_ms - watermark_ms) / 1000 if window.end_ms and watermark_ms is not None else 0
    return LostWindow(
        _to_the_second(window.start_ms),
        "" if window.end_ms is None else _to_the_second(window.end_ms),
        words.format_count(window.groups, "group"),
        tuple((_key_text(group), _fields_text(group.so_far)) for group in window.first),
        window.groups - len(window.first),
        words.format_duration(still) if still > 0 else "",
    )


def _key_text(group: OpenGroup) -> str:
    """`Berlin` of one column, the names too of several."""
    return group.key[0].text if len(group.key) == 1 else _fields_text(group.key)


def _fields_text(fields: Sequence[ReadField]) -> str:
    return ", ".join(f"{field.name} {field.text}" for field in fields)


def _to_the_second(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True)
class PositionRow:
    source: str
    place: str
    before: LabelledPosition
    after: LabelledPosition
    same: str
    next_name: str
    next_at: int | None
    next_says: str
    readable: status.Badge
    readable_says: str
    #: those that move: name, before, after, how
    parts: Sequence[tuple[str, str, str, status.Badge]] = ()
    staying: int = 0
    fallbacks: Sequence[tuple[str, str]] = ()


def position_rows(positions: Sequence[PositionChange]) -> list[PositionRow]:
    """Before → after per source, with what is read first."""
    rows = []
    for position in positions:
        ahead, readable = position.next, position.readable
        kind = "unknown" if readable.ok is None else "ok" if readable.ok else "failed"
        moving = [part for part in position.parts if part.moved is not PartMove.SAME]
        rows.append(
            PositionRow(
                source=str(position.source),
                place=strip_file_scheme(position.location or "unknown place"),
                before=position.before,
                after=position.after,
                same=_moved_text(position),
                next_name=ahead.name or "",
                next_at=ahead.mtime_ms,
                next_says=_ahead_text(ahead, is_files=position.is_files),
                readable=status.Badge(kind, ""),
                readable_says=readable.says or "not known",
                parts=[_part_cells(part) for part in moving],
                staying=len(position.parts) - len(moving) + position.more_parts,
                fallbacks=list(position.fallbacks.items()),
            )
        )
    return rows


def _moved_text(position: PositionChange) -> str:
    """What of this source is left out or read again by where it starts."""
    if position.before == position.after:
        return "same place, same bytes"
    if position.after.offset_json is None:
        return "begins again"
    lost, again = (
        starts.describe_distance(between)[0] if between else "not known"
        for between in (position.lost, position.reread)
    )
    return f"chosen start; never read: {lost}; read again: {again}"


def _part_cells(part: MovedPart) -> tuple[str, str, str, status.Badge]:
    return part.part, part.before or "none", part.after or "none", starts.MOVED[part.moved]


def _ahead_text(ahead: NextInput, *, is_files: bool) -> str:
    files, rows, sure = ahead.files, ahead.rows, ahead.rows_bound.value
    if not files and rows is None and not is_files:
        return "how much waits is not known"
    if not files and rows:
        return f"{words.format_count(rows, 'row')} in all, {sure}"
    if not files:
        return f"nothing waits; the next {'file' if is_files else 'row'} that arrives"
    tail = "rows not counted" if rows is None else f"{words.format_count(rows, 'row')}, {sure}"
    return f"{words.format_count(files, 'file')} in all, {tail}"


def key_line(columns: Sequence[str], key_from: str, *, whole_rows: bool) -> str:
    """By what rows are distinguished, and where that comes from."""
    key = ", ".join(columns) or "the whole row"
    if whole_rows:
        return f"Repeats are looked for by {key} ({key_from}); new rows are compared in every column."
    return f"Rows are identified by {key}" + (f" ({key_from})." if key_from and key_from != key else ".")
