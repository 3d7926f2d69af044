"""Starts and stops updates, and answers about them. The threads themselves are in `execution`."""

import logging
from typing import Any

from django.db import IntegrityError, transaction

from recovery import trace
from recovery.server import events
from recovery.server.environments import refuse_pipeline
from recovery.server.execution import (
    Execution,
    Failure,
    failure_of_lost_spark,
    record_outcome,
    record_state,
)
from recovery.server.instance import ServerInstance
from recovery.server.models import ACTIVE_STATES, Event, Pipeline, Update
from recovery.server.problems import active_update, invalid_request

LOG = logging.getLogger(__name__)
TABLES = ("refresh_selection", "full_refresh_selection")
ASKED = (*TABLES, "reset_checkpoint_selection", "full_refresh", "validate_only", "development", "cause")


def read_options(body: dict[str, Any]) -> dict[str, Any]:
    """What a start request whose fields were checked asks for; what says nothing is left out. Raises ApiProblem 400."""
    options = {key: body[key] for key in ASKED if body.get(key)}
    if options.get("full_refresh") and any(options.get(key) for key in TABLES):
        raise invalid_request("full_refresh and a selection of tables exclude each other.")
    return options


def start_update(instance: ServerInstance, pipeline: Pipeline, body: dict[str, Any], *, user: str) -> Update:
    """Record and begin an update.

    The database decides who is first: of two requests at once one gets 409 with the other's update. Raises
    ApiProblem 400, 409 RESOURCE_CONFLICT, 500 when Spark is gone.
    """
    options = read_options(body)
    refuse_pipeline(pipeline.spec, instance.environments)
    instance.check_ready()
    try:
        with transaction.atomic(using="pipelines"):
            update = Update.objects.create(
                pipeline=pipeline,
                options=options,
                spec=pipeline.spec,
                cause=options.get("cause", "API_CALL"),
                created_ms=events.now_ms(),
            )
            record_start(pipeline, update, user=user)
    except IntegrityError as error:
        if (running := active_of(pipeline)) is not None:
            raise active_update(pipeline.id, running.id) from error
        raise
    LOG.info("Update %s of pipeline %s was started by %s", update.id, pipeline.name, user)
    instance.begin(Execution(instance, update))
    return update


def record_start(pipeline: Pipeline, update: Update, *, user: str) -> None:
    """The first events of an update."""
    from pyspark import __version__ as spark_version

    config = {"config": update.spec, "cause": update.cause} | update.options
    if trace.current():  # the API has no word for what asked for an update
        config["x-reprise-request-id"] = trace.current()
    events.store_event(pipeline, "user_action", f"User {user} started an update.",
                  {"action": "START", "user_name": user}, update_id=update.id)  # fmt: skip
    events.store_event(
        pipeline,
        "create_update",
        f"Update {update.id[:6]} started by {update.cause}.",
        config,
        update_id=update.id,
    )
    events.store_event(pipeline, "runtime_details", f"Runs on Apache Spark {spark_version}.",
                  {"runtime_version": {"dbr_version": spark_version}}, update_id=update.id)  # fmt: skip
    record_state(pipeline, update.id, "QUEUED")


def active_of(pipeline: Pipeline) -> Update | None:
    """The active update of a pipeline."""
    return Update.objects.filter(pipeline=pipeline, state__in=ACTIVE_STATES).first()


def request_stop(instance: ServerInstance, pipeline: Pipeline, *, user: str) -> None:
    """Ask the active update to stop; nothing to do when there is none.

    The wish is in the database before the thread hears of it, so that an update which ends at this moment
    still sees it.
    """
    stopping = Update.objects.filter(pipeline=pipeline, state__in=ACTIVE_STATES, stop_requested=False)
    update = stopping.first()
    if update is None:
        return
    # A wish that was written without its event could not be asked for again.
    with transaction.atomic(using="pipelines"):
        if not stopping.filter(pk=update.pk).update(stop_requested=True, state="STOPPING"):
            return
        events.store_event(pipeline, "user_action", f"User {user} stopped the update.",
                      {"action": "STOP", "user_name": user}, update_id=update.id)  # fmt: skip
        record_state(pipeline, update.id, "STOPPING")
    if (execution := instance.execution(update.id)) is not None:
        execution.tell({"kind": "stop"})


def fail_left_active() -> int:
    """At start: updates that a former server left active are over. How many those were."""
    left = list(Update.objects.filter(state__in=ACTIVE_STATES).select_related("pipeline"))
    for update in left:
        sentence = "The server stopped while this update ran; its runner and its Spark driver ended with it."
        failure = Failure(sentence) if has_failed_flow(update) else failure_of_lost_spark(sentence)
        record_outcome(update, "FAILED", failure)
    return len(left)


def has_failed_flow(update: Update) -> bool:
    """Whether a flow of it had failed and was not begun again, by its events."""
    newest: dict[str, str] = {}
    statuses = Event.objects.filter(update_id=update.id, event_type="flow_progress").order_by("seq")
    for body in statuses.values_list("body", flat=True).iterator():
        newest[body["origin"].get("flow_name", "")] = body["details"]["flow_progress"].get("status", "")
    return "FAILED" in newest.values()


def update_info(update: Update, *, full: bool) -> dict[str, Any]:
    """UpdateInfo of the API. `full` adds what only get-update answers."""
    options = update.options
    info: dict[str, Any] = {
        "update_id": update.id,
        "pipeline_id": update.pipeline_id,
        "state": update.state,
        "cause": update.cause,
        "creation_time": update.created_ms,
        "full_refresh": bool(options.get("full_refresh")),
        "refresh_selection": options.get("refresh_selection", []),
        "full_refresh_selection": options.get("full_refresh_selection", []),
        "validate_only": bool(options.get("validate_only")),
    }
    return info | ({"config": update.spec, "mode": "DEFAULT"} if full else {})


def state_info(update: Update) -> dict[str, Any]:
    """UpdateStateInfo, as pipelines list their newest updates; here the time is text."""
    return {
        "update_id": update.id,
        "state": update.state,
        "creation_time": events.format_iso(update.created_ms),
    }
