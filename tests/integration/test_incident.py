"""The incident is Spark's own: three good updates, one edit, and the failure that the guide shows."""

import json

from tests.stack import Stack

WORDS = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"


def states(stack: Stack, pipeline: str) -> list[str]:
    _, answer = stack.api.get(f"/api/2.0/pipelines/{pipeline}/updates", max_results=100)
    return [update["state"] for update in answer["updates"]]


def test_the_flow_fails_with_sparks_own_words_and_is_made_only_once(stack: Stack) -> None:
    made = stack.incident("shop", explicit_flows=False, sources=2)

    assert states(stack, made.pipeline_id) == ["FAILED", "COMPLETED", "COMPLETED", "COMPLETED"]
    assert made.flow == made.table == "spark_catalog.db_shop.shop_changes"
    path = f"/api/2.0/pipelines/{made.pipeline_id}/events"
    _, answer = stack.api.get(path, filter="level = 'ERROR'", max_results=100)
    assert WORDS in json.dumps(answer["events"])
    assert stack.client.export(made.source).decode() == made.failing_code

    again = stack.incident("shop", explicit_flows=False, sources=2)

    assert again.pipeline_id == made.pipeline_id
    assert len(states(stack, made.pipeline_id)) == 4


def test_an_incident_that_was_interrupted_goes_on_where_it_was(stack: Stack) -> None:
    first = stack.incident("depot", batches=2, fail=False)
    assert states(stack, first.pipeline_id) == ["COMPLETED", "COMPLETED"]

    second = stack.incident("depot", batches=2)

    assert states(stack, second.pipeline_id) == ["FAILED", "COMPLETED", "COMPLETED"]
