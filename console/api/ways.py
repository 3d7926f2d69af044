"""Every way out of a flow's failure next to each other, by API: what `plan --strategy all` prints."""

from console.api import fields
from console.api.base import Body
from recovery.contracts import codec
from recovery.models import Recovery
from recovery.people.roles import Actor
from recovery.workflow import actions
from recovery.workflow.selectors import recovery_or_404
from recovery.workflow.ways import ways_of


def show_ways(body: Body, by: Actor, label: str) -> tuple[int, Body]:
    """What the newest count has found: `{status, problem, ways}`; `ways` as `plan --strategy all --json` prints it,
    null before rows were counted. Spark is not asked."""
    fields.allow_only(body, ())
    return 200, _show_ways(recovery_or_404(label, by))


def count_ways(body: Body, by: Actor, label: str) -> tuple[int, Body]:
    """Have a worker count the rows and judge every strategy. Nothing is chosen or sealed."""
    fields.allow_only(body, ())
    recovery = recovery_or_404(label, by)
    actions.request_facts(recovery_id=recovery.pk, by=by)
    recovery.refresh_from_db()
    return 202, _show_ways(recovery)


def _show_ways(recovery: Recovery) -> Body:
    facts = recovery.gathered
    ways = codec.to_json(ways_of(recovery)) if facts.options else None
    return {"status": facts.status or None, "problem": facts.problem, "ways": ways}
