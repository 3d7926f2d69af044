"""The filter languages: what they accept, and the words they refuse with."""

import pytest

from recovery.server.filters import FilterCondition, matches_like, parse_events_filter, parse_pipelines_filter
from recovery.server.problems import ApiProblem


@pytest.mark.parametrize(
    ("text", "conditions"),
    [
        ("", ()),
        ("  ", ()),
        ("level='ERROR'", (FilterCondition("level", "=", ("ERROR",)),)),
        ("level in ('ERROR','WARN')", (FilterCondition("level", "IN", ("ERROR", "WARN")),)),
        ("id = 'it''s'", (FilterCondition("id", "=", ("it's",)),)),
        ("timestamp >= '2026-03-02T10:15:07.120Z'", (FilterCondition("timestamp", ">=", (1772446507120,)),)),
        ("timestamp > '1970-01-01T00:00:01'", (FilterCondition("timestamp", ">", (1000,)),)),
        (
            "update_id = 'u' AND level in ('INFO') and timestamp<'1970-01-01T00:00:00.001Z'",
            (
                FilterCondition("update_id", "=", ("u",)),
                FilterCondition("level", "IN", ("INFO",)),
                FilterCondition("timestamp", "<", (1,)),
            ),
        ),
    ],
)
def test_an_events_filter_is_read(text: str, conditions: tuple[FilterCondition, ...]) -> None:
    assert parse_events_filter(text) == conditions


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("event_type='flow_progress'", "Operation '=' not allowed on 'event_type'"),
        ("event_type in ('a')", "Operation 'IN' not allowed on 'event_type'"),
        ("event_type LIKE 'a'", "Operation 'LIKE' not allowed on 'event_type'"),
        ("event_type != 'a'", "Operation '!=' not allowed on 'event_type'"),
        ("level > 'INFO'", "Operation '>' not allowed on 'level'"),
        ("level = 'LOUD'", "'LOUD' is not an event level"),
        ("timestamp > 'yesterday'", "'yesterday' is not a timestamp"),
        ("level = ERROR", "needs a quoted value"),
        ("level = 'ERROR' OR level = 'WARN'", "joined by AND only"),
        ("level = 'ERROR' AND", "needs a column"),
        ("level in 'ERROR'", "needs '('"),
        ("level in ('ERROR'", "the end"),
        ("level = 'ERROR'; drop table x", "cannot be read at '; drop table x'"),
    ],
)
def test_a_wrong_events_filter_is_refused_with_its_reason(text: str, words: str) -> None:
    with pytest.raises(ApiProblem) as refused:
        parse_events_filter(text)
    assert (refused.value.status, refused.value.error_code) == (400, "INVALID_PARAMETER_VALUE")
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("", None),
        ("name LIKE '%x%'", FilterCondition("name", "LIKE", ("%x%",))),
        ("notebook='/a/b'", FilterCondition("notebook", "=", ("/a/b",))),
    ],
)
def test_a_pipelines_filter_is_read(text: str, condition: FilterCondition | None) -> None:
    assert parse_pipelines_filter(text) == condition


@pytest.mark.parametrize(
    "text", ["state='IDLE'", "notebook LIKE 'a'", "name LIKE 'a' AND name LIKE 'b'", "name"]
)
def test_a_wrong_pipelines_filter_is_refused(text: str) -> None:
    with pytest.raises(ApiProblem):
        parse_pipelines_filter(text)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("%cust%", "My Customers", True),
        ("cust%", "My Customers", False),
        ("a_c", "abc", True),
        ("a.c", "abc", False),
        ("%", "", True),
    ],
)
def test_like_knows_its_two_wildcards(pattern: str, text: str, matches: bool) -> None:
    assert matches_like(pattern, text) is matches
