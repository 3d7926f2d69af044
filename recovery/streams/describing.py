"""An adopted stream, and one that could be, as programs read them: one shape for the command and the API."""

import sys
from pathlib import Path

from recovery.errors import RepriseError
from recovery.models import Stream
from recovery.pipelines import retagging
from recovery.streams.preview import Preview, StreamNeed, list_answers
from recovery.streams.running import answer_of
from recovery.streams.signs import Sign, say_sign, sign_from, sign_of_python


def stream_json(stream: Stream) -> dict[str, object]:
    """A stream with all that is kept of it. `running`: what its running command answered, null without one; `moves_to`:
    the environment that it moves to, and when at the earliest, null where none is wanted."""
    flow, moves_at = stream.pipeline.flows.get(), retagging.moves_at(stream.pipeline)
    wanted = stream.pipeline.wanted_environment
    return {
        "pipeline": stream.pipeline.pipeline_id,
        "flow": flow.name,
        "state": flow.state,
        "environment": stream.pipeline.environment,
        "moves_to": {"environment": wanted, "at": moves_at.isoformat()} if moves_at else None,
        "query_id": stream.query_ids[-1] if stream.query_ids else None,
        "checkpoint": stream.checkpoint,
        "sink": stream.sink or None,
        "event_log": stream.event_log or None,
        "program": stream.program or None,
        "runner": stream.runner,
        "owner": stream.owner or None,
        "running": running_json(stream),
        "signs": signs_json(stream),
    }


def running_json(stream: Stream) -> dict[str, object] | None:
    """`{answer, asked_at, says}` of its running command; null where it has none."""
    if not stream.running:
        return None
    answer = answer_of(stream)
    asked_at = answer.at.isoformat() if answer.at else None
    return {"answer": str(answer.answer) or "not_asked", "asked_at": asked_at, "says": answer.says or None}


def signs_json(stream: Stream) -> list[dict[str, object]]:
    """What is odd about it, each `{code, at, says, do}`."""
    signs = list_signs(stream)
    told = [(sign, *say_sign(sign)) for sign in signs]
    return [{"code": str(s.code), "at": s.at or None, "says": says, "do": do} for s, says, do in told]


def list_signs(stream: Stream) -> list[Sign]:
    """What the last poll kept, and what is odd about how it was adopted."""
    found = [sign_from(stored) for stored in stream.signs]
    python = sign_of_python(stream.spark_python, Path(sys.executable))
    return [*found, *([python] if python else [])]


def preview_json(found: Preview) -> dict[str, object]:
    """What a checkpoint shows. `pipeline`: of the stream that has it already, null before it is adopted; `checkpoint`:
    as `inspect` prints it."""
    problems = {StreamNeed.SINK: found.sink.problem, StreamNeed.EVENT_LOG: found.logs.problem}
    newest = found.logs.newest_run
    return {
        "place": found.place,
        "pipeline": found.known.pipeline.pipeline_id if found.known else None,
        "name": found.name,
        "environment": found.environment,
        "workspace": found.workspace,
        "checkpoint": found.report.as_dict(),
        "sink": found.sink.sink.place or found.sink.sink.dataset or None,
        "event_log": found.logs.folder or None,
        "application": newest.app.app_id if newest else None,
        "needs": [
            {"need": str(need), "answered": str(answered), "problem": _problem_json(problems.get(need))}
            for need, answered in list_answers(found).items()
        ],
    }


def _problem_json(problem: RepriseError | None) -> dict[str, str] | None:
    return None if problem is None else {"code": problem.code, "says": problem.sentence}
