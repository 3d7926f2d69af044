"""Every line of the table is found in a realistic message, and nothing makes the parser fall or dawdle."""

import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recovery.contracts.diagnosis import ChainedError, read_chain
from recovery.diagnosis import condition_of, diagnose_failure, innermost_condition, parse_conditions
from recovery.diagnosis.parsing import WRAPPERS, Chain
from recovery.diagnosis.row import ErrorRow
from recovery.diagnosis.table import ROWS, row_of_condition
from tests.unit.diagnosis.messages import BY_PATTERN, INCIDENT, PLAIN, message_of, templates, wrapped

NAMED = [(row, name) for row in ROWS for name in row.conditions if "*" not in name]
PATTERNS = [(row, name) for row in ROWS for name in row.conditions if "*" in name]


def row_of(causes: list[dict[str, str]]) -> ErrorRow | None:
    found = innermost_condition(parse_conditions(causes))
    return found.row if found else None


@pytest.mark.parametrize(("row", "condition"), NAMED, ids=[n for _, n in NAMED])
def test_each_condition_of_the_table_is_found_below_its_wrappers(row: ErrorRow, condition: str) -> None:
    causes = wrapped(message_of(condition))
    assert condition_of(causes) == condition
    assert row_of(causes) is row


@pytest.mark.parametrize(("row", "pattern"), PATTERNS, ids=[n for _, n in PATTERNS])
def test_each_pattern_of_the_table_finds_its_members(row: ErrorRow, pattern: str) -> None:
    members = [
        c for c in templates() if fnmatchcase(c, pattern) and row_of_condition(c) is row and c not in WRAPPERS
    ]
    members += [BY_PATTERN[pattern]] if pattern in BY_PATTERN else []
    assert members, "a pattern that names nothing is a slip"
    for condition in members:
        assert row_of(wrapped(message_of(condition))) is row


@pytest.mark.parametrize(("code", "class_name", "message"), PLAIN)
def test_each_plain_text_of_the_table_is_found(code: str, class_name: str, message: str) -> None:
    row = row_of(wrapped(message, class_name))
    assert row is not None
    assert row.code == code
    alone = row_of([ChainedError(class_name=class_name, message=message)])
    assert alone is row


def test_every_text_of_the_table_has_a_message_here() -> None:
    rows = {row.code: row for row in ROWS}
    for code in {code for code, _, _ in PLAIN}:
        messages = [f"{c}: {m}".lower() for owner, c, m in PLAIN if owner == code]
        for pattern in rows[code].patterns:
            assert any(pattern.search(m) for m in messages), pattern.pattern
    assert {row.code for row in ROWS if row.texts} == {code for code, _, _ in PLAIN}


def test_codes_are_unique_and_every_row_says_something() -> None:
    assert len({row.code for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert row.conditions or row.texts
        assert 1 <= row.severity <= 5
        assert row.title.endswith(".")
        assert row.do
        assert all(text.endswith((".", "?")) for text in (*(a.says for a in row.list_advice()), *row.dont))
        if row.severity >= 3:
            assert row.dont, row.code


def test_no_condition_stands_in_two_rows() -> None:
    names = [name for _, name in NAMED]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "wrapper",
    [
        "[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function in foreach batch sink.",
        "[PIPELINE_RUN_FAILED] The pipeline run failed.",
        "[_LEGACY_ERROR_TEMP_3000] old",
        "Job aborted due to stage failure",
        "[ERROR] a line of a log",
    ],
)
def test_wrappers_are_discarded(wrapper: str) -> None:
    causes = [
        ChainedError(class_name="x", message=f"{wrapper} {INCIDENT}"),
        ChainedError(class_name="y", message=INCIDENT),
    ]
    assert condition_of(causes) == "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
    assert condition_of([ChainedError(message=wrapper), ChainedError(message=INCIDENT)])
    assert condition_of(f"{wrapper}\n{INCIDENT}") == "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"


def test_a_user_function_with_nothing_inside_is_the_reason_itself() -> None:
    found = diagnose_failure(
        causes="[STREAM_FAILED] x [FOREACH_BATCH_USER_FUNCTION_ERROR] y: ZeroDivisionError"
    )
    assert found.condition == "FOREACH_BATCH_USER_FUNCTION_ERROR"
    assert found.damaged == "nothing"


def test_the_innermost_known_condition_wins_over_an_unknown_one_below_it() -> None:
    causes = wrapped("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] x caused by [SOME_STRANGE_THING] y")
    assert condition_of(causes) == "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED"


def test_an_unlisted_sub_condition_falls_back_to_its_parent() -> None:
    row = row_of_condition("CANNOT_LOAD_STATE_STORE.SOMETHING_NEW")
    assert row is not None
    assert row.code == "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED"
    assert row_of_condition("NOT_IN_THE_TABLE.AT_ALL") is None


@pytest.mark.parametrize("causes", [None, [], "", [ChainedError()]])
def test_nothing_to_parse_is_no_condition(causes: Chain) -> None:
    assert condition_of(causes) == ""
    assert diagnose_failure(causes=causes).family == "unknown"


@pytest.mark.parametrize(
    ("stored", "chain"),
    [
        (None, ()),
        ("x", ()),
        ([], ()),
        ([3, "x", None], ()),
        ([{}], (ChainedError(),)),
        ([{"class_name": 3, "message": None, "new": 1}], (ChainedError(class_name="3"),)),
        (
            [{"message": "a", "file": "t.py", "line": 25}],
            (ChainedError(message="a", file="t.py", line="25"),),
        ),
        ([{"message": "a", "file": "t.py", "line": ""}], (ChainedError(message="a", file="t.py"),)),
    ],
)
def test_a_stored_chain_is_read_whatever_it_holds(stored: object, chain: tuple[ChainedError, ...]) -> None:
    assert read_chain(stored) == chain


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "class_name": st.text(max_size=40) | st.none(),
                "message": st.text(max_size=400)
                | st.text(alphabet="[]ABC_.: (){}\n'", max_size=400)
                | st.sampled_from([INCIDENT, *(m for _, _, m in PLAIN)]),
            }
        ),
        max_size=6,
    )
)
def test_any_text_gives_a_whole_diagnosis(stored: list[dict[str, str | None]]) -> None:
    causes = read_chain(stored)
    found = diagnose_failure(causes=causes)
    assert found.title
    assert 1 <= found.severity <= 5
    assert len(found.causes) == len(causes)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 2_000_000,
        "[A_" * 700_000,
        "batch " * 400_000,
        "Stateful operators in the metadata: " + "(OperatorId: 0 -> OperatorName: " * 100_000,
        "has FAILED more than " * 100_000,
        "partitions " * 300_000 + "\n" + "race while writing batch " * 100_000,
    ],
)
def test_a_hostile_text_is_judged_quickly(text: str) -> None:
    began = time.perf_counter()
    diagnose_failure(causes=[ChainedError(class_name="x", message=text)] * 200, old_text=text, new_text="x")
    assert time.perf_counter() - began < 3
