"""What of a pipeline's own settings starts it without a person: continuous mode, and the retries of a failed update.

Facts: a continuous pipeline is started again by the service whenever its update ends; a triggered one that is not in
development mode retries a failed update by itself (`cause` RETRY_ON_FAILURE), as often as
`pipelines.numUpdateRetryAttempts` of its configuration says (5, and without end for a continuous one, where it says
nothing). Settings are replaced whole: what is not sent is gone, so all that was read is sent back, with
`expected_last_modified` against a change by somebody in between. The Pipelines server of this project knows neither.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from recovery.errors import NotFound, Refused
from recovery.pipelines.client import PipelinesClient
from recovery.pipelines.errors import ActiveUpdate

MODE, RETRIES = "mode", "retries"
ATTEMPTS: Final = "pipelines.numUpdateRetryAttempts"
RETRY: Final = "RETRY_ON_FAILURE"
BESIDE: Final = ("run_as", "parameters")
"""Settings that the API answers beside the spec and takes inside of it."""
PAUSED, AWAKE = "PAUSED", "UNPAUSED"


def settings(
    answer: Mapping[str, Any], updates: Iterable[Mapping[str, Any]]
) -> list[tuple[str, dict[str, Any]]]:
    """(way, setting) of each that is awake, from a get-pipeline answer and its newest updates. Pure.

    Retries that no one configured are there where they can be: without end in continuous mode; of a triggered pipeline
    where one of the updates was a retry. A setting has `pause_status` as a job's has.
    """
    spec = _mapping(answer.get("spec"))
    triggers = []
    attempts = _mapping(spec.get("configuration")).get(ATTEMPTS)
    retried = any(u.get("cause") == RETRY for u in updates)
    retries = attempts is not None or bool(spec.get("continuous")) or retried
    if retries and _setting(spec, RETRIES)["pause_status"] == AWAKE and not spec.get("development"):
        triggers.append((RETRIES, _setting(spec, RETRIES)))
    if spec.get("continuous"):
        triggers.append((MODE, _setting(spec, MODE)))
    return triggers


def _setting(spec: Mapping[str, Any], way: str) -> dict[str, Any]:
    if way == MODE:
        return {"pause_status": AWAKE if spec.get("continuous") else PAUSED}
    attempts = _mapping(spec.get("configuration")).get(ATTEMPTS)
    return {"pause_status": PAUSED if str(attempts) == "0" else AWAKE, "attempts": attempts}


def changed(spec: Mapping[str, Any], way: str, setting: Mapping[str, Any]) -> dict[str, Any]:
    """The whole spec with this one setting put, everything else as it was. Pure."""
    paused = setting["pause_status"] == PAUSED
    if way == MODE:
        return {**spec, "continuous": not paused}
    configuration = dict(_mapping(spec.get("configuration")))
    attempts = "0" if paused else setting.get("attempts")
    if attempts is None:
        configuration.pop(ATTEMPTS, None)
    else:
        configuration[ATTEMPTS] = attempts
    return {**spec, "configuration": configuration}


def now(client: PipelinesClient, pipeline_id: str, way: str) -> dict[str, Any] | None:
    """The setting as it is; None when the pipeline is gone. Raises Unreachable, ApiError."""
    try:
        return _setting(_mapping(client.get_pipeline(pipeline_id).get("spec")), way)
    except NotFound:
        return None


def put(client: PipelinesClient, pipeline_id: str, way: str, setting: Mapping[str, Any]) -> None:
    """Replace the pipeline's settings by the same ones with this one changed. Raises Refused when somebody else changed
    them at the same moment, and for an answer that does not hold the settings."""
    answer = client.get_pipeline(pipeline_id)
    spec = answer.get("spec")
    if not isinstance(spec, Mapping) or not spec:
        raise Refused(
            "The Pipelines API answers without the pipeline's settings, so they were left alone.",
            code="no_settings_read",
        )
    body = {**changed(spec, way, setting), **{k: answer[k] for k in BESIDE if answer.get(k)}}
    if answer.get("last_modified") is not None:
        body["expected_last_modified"] = answer["last_modified"]
    try:
        client.edit_pipeline(pipeline_id, body)
    except ActiveUpdate as conflict:  # the one word that the API has for every conflict
        raise Refused(
            f"The pipeline's settings were changed by someone else at the same moment ({conflict.sentence}). "
            "They were left alone; try again.",
            code="changed_meanwhile",
        ) from conflict


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
