"""Finds the pipeline or flow that somebody named, or says in one sentence what else it could be."""

from difflib import get_close_matches

from django.db.models import QuerySet

from recovery.errors import NotFound
from recovery.models import Flow, Pipeline, Workspace
from recovery.people.roles import SYSTEM, Actor
from recovery.people.visible import filter_visible
from recovery.pipelines.inventory import refresh
from recovery.pipelines.losses import is_in_doubt


def find_pipeline(text: str, by: Actor = SYSTEM) -> Pipeline:
    """The pipeline of that id or unique name that `by` may see. For one that is not known the workspaces are asked.

    Raises NotFound: none (with the nearest names), or several of one name (with their ids).
    """
    wanted = text.strip()
    pipeline = _matching(wanted, by)
    if not pipeline:
        for workspace in Workspace.objects.active():  # all of one that was never polled: it has no names yet
            refresh(workspace_id=workspace.pk, only=wanted if workspace.polled_at else None)
        pipeline = _matching(wanted, by)
    if len(pipeline) == 1:
        return pipeline[0]
    if pipeline:
        ids = ", ".join(p.pipeline_id for p in pipeline)
        raise NotFound(
            f"{len(pipeline)} pipelines are named {wanted}. Use an id: {ids}.", code="ambiguous_pipeline"
        )
    code, advice = _nearest_pipelines(wanted, by)
    raise NotFound(f"There is no pipeline {wanted!r}. {advice}", code=code)


def find_fresh(text: str, by: Actor = SYSTEM) -> Pipeline:
    """Like `find_pipeline`, after asking the pipeline's workspace again.

    What was unique at the last poll may have a twin by now, or be gone; a change to a pipeline must never
    go by the older list. Raises NotFound; a workspace that does not answer leaves its rows as they were.
    """
    wanted = text.strip()
    if _matching(wanted, by):  # else `find_pipeline` asks, once
        refresh(workspace_id=find_pipeline(wanted, by).workspace_id, only=wanted)
    return find_pipeline(wanted, by)


def _present(by: Actor) -> QuerySet[Pipeline]:
    return Pipeline.objects.filter(filter_visible(by), gone=False).select_related("workspace")


def _matching(wanted: str, by: Actor) -> list[Pipeline]:
    by_id = list(_present(by).filter(pipeline_id=wanted))
    return by_id or list(_present(by).filter(name=wanted).order_by("pipeline_id"))


def _nearest_pipelines(wanted: str, by: Actor) -> tuple[str, str]:
    """The code of why it is not found, and what to do."""
    away = Workspace.objects.active().exclude(poll_error="").first()
    if away is not None:
        return "workspace_away", f"Workspace {away.name} could not be asked: {away.poll_error}"
    names = sorted(set(_present(by).values_list("name", flat=True)))
    if not names:
        return (
            "no_pipelines",
            "No pipeline is known yet; create one through the Pipelines API, or register a workspace.",
        )
    near = get_close_matches(wanted, names, n=3, cutoff=0.4) or names[:3]
    return "not_found", f"Did you mean {' or '.join(near)}? `flows` lists them all."


def find_flow(pipeline: Pipeline, text: str | None) -> Flow:
    """The flow of that full name, last part of a name, or target table; without a text the only failing one,
    or, where none fails, the only one in doubt (`losses.is_in_doubt`); of a plain stream its one flow.

    Raises NotFound: none, or several (with their full names).
    """
    flows = list(Flow.objects.filter(pipeline=pipeline).order_by("name"))
    if not flows:
        why = (
            "its newest update failed before one was defined"
            if pipeline.judged == "failed"
            else "no update of it has run"
        )
        raise NotFound(f"Pipeline {pipeline.name} has no flow yet: {why}.")
    if text is None:
        return _only_failing(pipeline, flows)
    wanted = text.strip().replace("`", "")
    for matching in (
        [f for f in flows if f.name == wanted],
        [f for f in flows if f.short == wanted],
        [f for f in flows if f.dataset == wanted],
        [f for f in flows if f.dataset.rsplit(".", 1)[-1] == wanted],
    ):
        if len(matching) == 1:
            return matching[0]
        if matching:
            names = ", ".join(f.name for f in matching)
            raise NotFound(
                f"{len(matching)} flows of {pipeline.name} answer to {wanted}. Use a full name: {names}."
            )
    full = [f.name for f in flows]
    near = get_close_matches(wanted, [*full, *(f.short for f in flows)], n=3, cutoff=0.4) or full[:5]
    raise NotFound(f"Pipeline {pipeline.name} has no flow {wanted!r}. Did you mean {' or '.join(near)}?")


def _only_failing(pipeline: Pipeline, flows: list[Flow]) -> Flow:
    if pipeline.workspace.has_streams and len(flows) == 1:
        return flows[0]  # a plain stream has no other, whatever its state
    failing = [f for f in flows if f.state == "failed"] or [f for f in flows if is_in_doubt(f)]
    if len(failing) == 1:
        return failing[0]
    if failing:
        names = ", ".join(f.name for f in failing)
        what = "fail" if failing[0].state == "failed" else "are in an unknown state"
        raise NotFound(f"{len(failing)} flows of {pipeline.name} {what}. Name one with --flow: {names}.")
    names = ", ".join(f.name for f in flows)
    raise NotFound(f"No flow of {pipeline.name} fails. Name one with --flow: {names}.")
