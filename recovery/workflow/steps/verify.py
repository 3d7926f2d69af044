"""verify: measure the plan's criteria on the data, run one further update, and judge. Changes no checkpoint.

Measuring twice does no harm, so a silent attempt is repeated by itself; the further update only adds
what has arrived since.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from django.utils import timezone

from recovery.errors import Refused
from recovery.models import Step
from recovery.spark.process import prepare
from recovery.strategies.readers import left_behind
from recovery.verification.evidence import Evidence, FurtherUpdate
from recovery.verification.judge import judge
from recovery.verification.outcome import outcome_of
from recovery.workflow import evidence as reading
from recovery.workflow import refreshed, reviewed, topics
from recovery.workflow.gather import Scene, look, other_fingerprints
from recovery.workflow.learning import note_proven
from recovery.workflow.readers import Readers
from recovery.workflow.steps import rerun
from recovery.workflow.steps.base import Context, Probed, saw

SECONDS = 3600


def run(context: Context) -> Mapping[str, Any]:
    """Measure first, then the further update, then the other places; a criterion not measured never passes."""
    prepare()  # the first question to Spark is only moments away
    done = {s.kind: s.result for s in context.recovery.steps.filter(plan=context.plan, state="done")}
    if "rerun" not in done or "stop" not in done:
        raise Refused("The rerun has not ended, so there is nothing to verify yet.")
    scene = look(context.flow, known=reading.places(context.body))
    started = rerun.updates(done["rerun"])
    reviewed.same(context.body, scene.spec, scene.code, scene.client, so="Nothing was measured.")
    reviewed.ran(context.body, context.client, context.pipeline_id, started)
    readers = Readers(lambda: scene)
    evidence = reading.collect(
        scene,
        context.body,
        readers,
        seen=done["rerun"].get("listed") or {},
        sink_before=done["stop"]["sink_files"],
        version_before=done["stop"].get("sink_version"),
        topic_before=done["stop"].get("topic"),
        marks_before=done["stop"].get("sink_marks"),
        update_ids=started,
    )
    context.log("Measured on Spark in a fresh session: " + _counts(evidence))
    reviewed.ran(context.body, context.client, context.pipeline_id, refreshed.updates_of(done.get("refresh")))
    evidence = replace(evidence, below=refreshed.measure(scene, context.body, done.get("refresh")))
    prepare()
    further = _further(context, scene, readers, evidence)
    evidence = replace(
        evidence,
        further=further,
        others_before=refreshed.besides(context.body, done["stop"]["others"]),
        others_after=refreshed.besides(context.body, other_fingerprints(scene)),
    )
    body = context.body
    verdict = judge(body["strategy"], body["criteria"], evidence, edition=body.get("proof", 1)).as_dict()
    for one in verdict["criteria"]:
        word = {True: "holds", False: "does NOT hold", None: "could not be measured"}[one["ok"]]
        context.log(f"{one['code']} {word}. {one['why']}")
    outcome = outcome_of(body["forecast"], body["criteria"], evidence)
    if verdict["verified"]:
        note_proven(scene, readers)
    told = {**verdict, "at": timezone.now().isoformat(), **outcome.as_dict(), **_below(context, evidence)}
    return {"measured": told}


def _further(context: Context, scene: Scene, readers: Readers, evidence: Evidence) -> FurtherUpdate:
    body = context.body
    before = reading.seen(body, readers)
    reviewed.still(body, context.client, context.pipeline_id, so="The further update was not started.")
    context.watch.guard()
    tables = [] if reading.is_declared(body) else [body["dataset"]]
    update_id = context.client.start_update(context.pipeline_id, **rerun.selected(tables))
    context.watch.keep(further=update_id)
    context.log(f"Further update {update_id} accepted; it must add nothing.")
    state = rerun.watch(context, update_id)
    context.watch.keep(further=None)
    if state != "COMPLETED" and (who := context.held_by):
        raise Refused(f"{who} stopped the run while it was verified. Resume to measure again.")
    reviewed.ran(body, context.client, context.pipeline_id, [update_id])
    after = reading.seen(body, readers)
    stood, stands = _rows(context, scene, evidence, ended=state == "COMPLETED")
    return FurtherUpdate(
        state=state,
        rows_before=stood,
        rows_after=stands,
        files_before=(),
        files_after=reading.changed_since(scene, body),
        arrived=reading.arrived(before, after),
    )


def _rows(
    context: Context, scene: Scene, evidence: Evidence, *, ended: bool
) -> tuple[int | None, int | None]:
    """Rows before and after the further update: of the table; of a topic, its records since the rerun began."""
    measure, body = evidence.measure, context.body
    if not reading.is_declared(body):
        before = measure.table_rows if measure else None
        return before, reading.table_rows(scene, body["dataset"]) if ended else None
    stood = measure.new_rows if measure else None
    if not ended or stood is None:
        return stood, None
    now = look(context.flow, known=reading.places(body))
    came = topics.more(now, topics.ends(scene), topics.ends(now))
    return stood, None if came is None else stood + came


def _counts(evidence: Evidence) -> str:
    found = evidence.measure
    if found is None or found.problem:
        return found.problem if found and found.problem else "nothing could be compared."
    counts = f"{found.new_rows} new rows, {found.expected_rows} expected"
    return f"{counts}, {found.missing} missing, {found.extra} too many."


def _below(context: Context, evidence: Evidence) -> dict[str, Any]:
    """What became of each dataset downstream, and what the plan leaves behind."""
    return {
        "downstream": [one.as_dict() for one in evidence.below or ()],
        "left_behind": [one.as_dict() for one in left_behind(context.body["forecast"])],
    }


def probe(step: Step) -> Probed:
    """Nothing to find out: measuring again is safe."""
    return Probed("again", [saw(True, "This step measures; doing it again changes nothing.")])
