"""Folds the lines of an event log, one after the other, into what its application and its queries did."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from recovery.bounded import read_json, values_at_most
from recovery.eventlogs.plans import read_plan, run_of_batch
from recovery.eventlogs.times import read_ms
from recovery.eventlogs.values import (
    MOST_BATCHES,
    MOST_ROW_SETTINGS,
    TIME_ZONE,
    Application,
    Run,
    RunState,
    is_row_setting,
)

LISTENER: Final = "org.apache.spark.sql.streaming.StreamingQueryListener$"
PLAN: Final = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
SETTINGS: Final = (
    "spark.sql.streaming.checkpointLocation",
    "spark.sql.streaming.stateStore.providerClass",
    "spark.master",
    "spark.eventLog.dir",
)
"""Settings that are kept besides those by which rows may differ; others may be secret."""
JVM_TIME_ZONE: Final = "user.timezone"
"""The system property by which a session has its time zone where no setting names one."""
_CUT: Final = "\n…\n"
MOST_TEXT: Final = 64_000
MOST_NAME: Final = 300
LONGEST_SETTING: Final = 1_000
LARGEST_PROGRESS: Final = 64_000
MOST_VALUES: Final = 50_000
"""Of one line: of a progress over thousands of partitions of a topic, or of a long class path."""
MOST_PROGRESS_VALUES: Final = 4_000
"""Of a progress that is kept whole; of a larger one only what has few values is."""
SCALARS: Final = (str, int, float, bool)
DEEPEST: Final = 40
"""An event of a query is nested 5 deep."""
LARGEST_INT: Final = 1 << 63
LATEST_MS: Final = 1 << 48
PLAN_FIELDS: Final = (
    "time", "physicalPlanDescription", "description", "modifiedConfigs", "executionId", "rootExecutionId",
)  # fmt: skip
_WANTED: Final = tuple(
    f'{{"Event":"{name}'.encode()
    for name in (
        "SparkListenerLogStart", "SparkListenerApplication", "SparkListenerEnvironmentUpdate", LISTENER, PLAN,
    )
)  # fmt: skip


def fold_line(app: Application, line: bytes) -> Application:
    """`app` with what one line says. Most lines are of tasks and stages, and are not parsed."""
    if not line.startswith(_WANTED):
        return replace(app, left_out=app.left_out + 1) if not line.startswith(b"{") else app
    try:
        event = read_json(
            line,
            most=MOST_VALUES,
            parse_constant=_drop_constant,
            parse_float=_parse_float,
            parse_int=_parse_int,
        )
    except ValueError:
        return replace(app, left_out=app.left_out + 1)
    if not isinstance(event, dict):
        return app
    kind = str(event.get("Event") or "")
    if kind == PLAN:
        return _fold_plan(app, {name: _clean_value(event.get(name)) for name in PLAN_FIELDS})
    event = _clean_value(event)
    if kind.startswith(LISTENER):
        return _fold_query(app, kind.removeprefix(LISTENER), event)
    return _fold_application(app, kind, event)


def _clean_value(value: Any, depth: int = 0) -> Any:
    """What every database keeps: no deep nesting, no NUL, no half of a character."""
    if isinstance(value, str):
        text = value.replace("\0", "\N{REPLACEMENT CHARACTER}")
        return text if text.isascii() else text.encode(errors="replace").decode()
    if not isinstance(value, (dict, list)):
        return value
    if depth >= DEEPEST:
        return None
    if isinstance(value, list):
        return [_clean_value(item, depth + 1) for item in value]
    return {_clean_value(name): _clean_value(item, depth + 1) for name, item in value.items()}


def _drop_constant(_: str) -> None:
    """NaN and the infinities are no JSON."""


def _parse_float(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _parse_int(text: str) -> int | None:
    number = int(text) if len(text) < 20 else LARGEST_INT
    return number if abs(number) < LARGEST_INT else None


def _fold_application(app: Application, kind: str, event: Mapping[str, Any]) -> Application:
    if kind == "SparkListenerLogStart":
        return replace(app, version=_bound_text(event.get("Spark Version"), MOST_NAME))
    if kind == "SparkListenerApplicationStart":
        return _note_time(
            replace(
                app,
                app_id=_bound_text(event.get("App ID"), MOST_NAME),
                attempt=_bound_text(event.get("App Attempt ID"), MOST_NAME),
                name=_bound_text(event.get("App Name"), MOST_NAME),
                user=_bound_text(event.get("User"), MOST_NAME),
                started_ms=_read_number(event.get("Timestamp")),
            ),
            _read_number(event.get("Timestamp")),
        )
    if kind == "SparkListenerApplicationEnd":
        ended = _read_number(event.get("Timestamp"))
        return close_application(_note_time(replace(app, ended_ms=ended), ended), ended)
    if kind == "SparkListenerEnvironmentUpdate":
        told = dict(_read_texts(event.get("Spark Properties")))
        zone = told.get(TIME_ZONE) or dict(_read_texts(event.get("System Properties"))).get(JVM_TIME_ZONE)
        named = told | ({TIME_ZONE: zone} if zone else {})
        kept = {k: _bound_text(named[k], LONGEST_SETTING) for k in SETTINGS if k in named}
        return replace(app, settings=kept | _read_row_settings(named))
    return app


def close_application(app: Application, at_ms: int | None) -> Application:
    """An application that has ended has no query left that runs."""
    runs = tuple(
        replace(r, state=RunState.LEFT, ended_ms=at_ms) if r.state is RunState.RUNNING else r
        for r in app.runs
    )
    return replace(app, runs=runs)


def _fold_query(app: Application, kind: str, event: Mapping[str, Any]) -> Application:
    if kind == "QueryStartedEvent":
        at = read_ms(event.get("timestamp")) or app.last_ms or 0
        run = Run(
            _read_id(event.get("id")),
            _read_id(event.get("runId")),
            _bound_text(event.get("name"), MOST_NAME),
            at,
        )
        return _note_time(app.with_run(run), at) if run.query_id and run.run_id else app
    if kind == "QueryTerminatedEvent":
        return _fold_terminated(app, event)
    progress = event.get("progress")
    if kind == "QueryIdleEvent":  # since 3.5; before, a progress without addBatch
        idle_ms, waiting = read_ms(event.get("timestamp")), app.run(_read_id(event.get("runId")))
        return _note_time(app.with_run(replace(waiting, idle_ms=idle_ms)) if waiting else app, idle_ms)
    if kind != "QueryProgressEvent" or not isinstance(progress, dict):
        return _note_time(app, read_ms(event.get("timestamp")))
    at = read_ms(progress.get("timestamp")) or app.last_ms or 0
    run = app.run(_read_id(progress.get("runId"))) or Run(
        _read_id(progress.get("id")),
        _read_id(progress.get("runId")),
        _bound_text(progress.get("name"), MOST_NAME),
        at,
    )
    if not run.run_id:
        return app
    return _note_time(app.with_run(_with_progress(run, progress)), at + _took_ms(progress))


def _took_ms(progress: Mapping[str, Any]) -> int:
    """A progress bears the time at which its batch began, and is written when it has ended."""
    took = progress.get("durationMs")
    return (_read_number(took.get("triggerExecution")) or 0) if isinstance(took, dict) else 0


def _with_progress(run: Run, progress: Mapping[str, Any]) -> Run:
    """A query says a batch again while it waits for input: that takes the place of nothing that has run."""
    took = progress.get("durationMs")
    is_idle = isinstance(took, dict) and "addBatch" not in took
    if is_idle:
        return replace(run, idle_ms=read_ms(progress.get("timestamp")))
    rows, text = _rows_of(progress.get("sources")), json.dumps(progress).encode()
    if len(text) > LARGEST_PROGRESS or values_at_most(text) > MOST_PROGRESS_VALUES:
        progress = {
            name: value
            for name, value in progress.items()
            if isinstance(value, SCALARS) and len(str(value)) <= LONGEST_SETTING
        }
    kept = (*run.batches, {**rows, **progress})[-MOST_BATCHES:]
    return replace(run, batches=kept, batches_in_all=run.batches_in_all + 1)


def _rows_of(sources: Any) -> dict[str, int]:
    """The rows of all sources: an event log has those of each source alone."""
    if not isinstance(sources, list):
        return {}
    rows = [_read_number(s.get("numInputRows")) for s in sources if isinstance(s, dict)]
    known = [count for count in rows if count is not None]
    return {"numInputRows": sum(known)} if len(known) == len(sources) else {}


def _fold_terminated(app: Application, event: Mapping[str, Any]) -> Application:
    run_id, at = _read_id(event.get("runId")), read_ms(event.get("timestamp")) or app.last_ms
    run = app.run(run_id) or Run(_read_id(event.get("id")), run_id, started_ms=at or 0)
    if not run.run_id:
        return app
    failure = _bound_text(event.get("exception"), MOST_TEXT)
    ended = replace(
        run,
        state=RunState.FAILED if failure else RunState.ENDED,
        ended_ms=at,
        failure=failure,
        error_class=_bound_text(event.get("errorClassOnException"), MOST_NAME),
    )
    return _note_time(app.with_run(ended), at)


def _fold_plan(app: Application, event: Mapping[str, Any]) -> Application:
    app, text = _note_time(app, _read_number(event.get("time"))), event.get("physicalPlanDescription")
    description = _bound_text(event.get("description"), MOST_NAME * 4)
    plan = read_plan(text, description) if isinstance(text, str) else None
    run = app.run(plan.run_id if plan else run_of_batch(description))
    if run is None:
        return app
    # a program may set them after its start; Spark names with each execution what differs from its settings. What a
    # function runs inside of a batch has its batch's description, and may have a session of its own
    if event.get("rootExecutionId") in (None, event.get("executionId")):
        changed = _read_row_settings(dict(_read_texts(event.get("modifiedConfigs"))))
        run = replace(run, changed_row_settings=changed)
    if plan is not None:
        run = replace(run, operators=plan.operators, checkpoint=plan.checkpoint or run.checkpoint)
    return app.with_run(run)


def _read_row_settings(properties: Mapping[str, str]) -> dict[str, str]:
    named = sorted(name for name in properties if is_row_setting(name))
    return {name: _bound_text(properties[name], LONGEST_SETTING) for name in named[:MOST_ROW_SETTINGS]}


def _read_texts(properties: Any) -> list[tuple[str, str]]:
    """Name and value of each property."""
    if not isinstance(properties, dict):
        return []
    return [(name, value) for name, value in properties.items() if isinstance(value, str)]


def _note_time(app: Application, at: int | None) -> Application:
    return app if at is None else replace(app, last_ms=max(at, app.last_ms or 0))


def _bound_text(value: Any, most: int) -> str:
    """Of a long text both ends: the reason of a failure is at one of them."""
    if not isinstance(value, str):
        return ""
    half = (most - len(_CUT)) // 2
    return value if len(value) <= most else f"{value[:half]}{_CUT}{value[-half:]}"


def _read_id(value: Any) -> str:
    return value if isinstance(value, str) and 0 < len(value) <= 80 else ""


def _read_number(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value < LATEST_MS else None
