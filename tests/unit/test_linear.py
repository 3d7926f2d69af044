"""Hostile text costs time in proportion to its length, wherever text of other people is matched."""

import contextlib
import gc
import time
from collections.abc import Callable
from typing import Final

import pytest

from recovery.errors import Unreachable
from recovery.linear import Linear
from recovery.server import eventlog, filters, messages, only_databricks
from recovery.server.problems import ApiProblem
from recovery.sources.live.files import glob_pattern
from recovery.spark import explained

SIZE: Final = 100_000


def seconds(act: Callable[[str], object], unit: str, size: int) -> float:
    """Of this process alone, the shortest of three."""
    text = unit * (size // len(unit))
    taken = []
    gc.disable()  # its own work grows with all that the process holds
    try:
        for _ in range(3):
            began = time.process_time()
            act(text)
            taken.append(time.process_time() - began)
    finally:
        gc.enable()
    return min(taken)


def plan(line: str) -> str:
    return f"== Analyzed Logical Plan ==\na#1\n{line}\n== Physical Plan ==\n{line}\n"


MATCHERS: Final[dict[str, tuple[Callable[[str], object], tuple[str, ...]]]] = {
    "hint": (
        lambda text: only_databricks.hint_of_databricks([{"message": text}]),
        (
            "DATA_SOURCE_NOT_FOUND ",
            "UNRESOLVABLE_TABLE_VALUED_FUNCTION",
            "PARSE_SYNTAX_ERROR ",
            "name 'a",
            "table(",
        ),
    ),
    "message": (messages.parse_message, ("Flow ' is ", "Flow 'is ", "Failed to resolve flow: '", "a")),
    "session": (
        lambda text: eventlog.session_of(eventlog.TAG + text),
        ("_Session_", "_Operation", "_Session_x_Operation_", "_"),
    ),
    "plan": (
        lambda text: explained.besides(plan(text)),
        ("a", "UDF", "aUDF", "a.", "current_", "~", "|", "#1", ")#", "== "),
    ),
    "relations": (
        lambda text: explained.relations(plan(text)),
        ("StreamingRelation ", "StreamingRelationV2 a, ", "#1", "FileSource["),
    ),
    "operators": (lambda text: explained.operators(plan(text)), (" ", ":", "+- ", "== x ==\n")),
    "filter": (filters.split_tokens, ("''", " ", "a ", "(", "a=")),
    "events filter": (filters.parse_events_filter, ("id='a' AND ",)),
    "like, text": (lambda text: filters.matches_like("%a%b%c%", text), ("a", "ab", "ba")),
    "like, pattern": (lambda text: filters.matches_like(text, "a" * 1000), ("%", "%a", "_")),
}


@pytest.mark.parametrize(("matcher", "unit"), [(m, u) for m, (_, units) in MATCHERS.items() for u in units])
def test_twice_the_text_takes_twice_the_time(matcher: str, unit: str) -> None:
    def act(text: str) -> None:
        with contextlib.suppress(ApiProblem):
            MATCHERS[matcher][0](text)

    half, whole = seconds(act, unit, SIZE // 2), seconds(act, unit, SIZE)
    assert whole <= 3 * half + 0.05, f"{half:.3f} s, then {whole:.3f} s"


@pytest.mark.parametrize(
    "glob", ["*a" * 60 + "b", "{" * 20 + "*a*,*" + "}" * 20, "[a-z]*" * 60 + "9", "?*" * 60 + "b"]
)
def test_a_name_pattern_of_many_stars_is_answered(glob: str) -> None:
    assert glob_pattern(glob).matches(["a" * 255] * 200) == [False] * 200 or "{" in glob


@pytest.mark.parametrize(
    ("glob", "name", "fits"),
    [
        ("*.json", "a.json", True),
        ("*.json", "a.jsonl", False),
        ("a?c", "abc", True),
        ("a?c", "ac", False),
        ("[a-c]x", "bx", True),
        ("[^a-c]x", "bx", False),
        ("{a,b*}.csv", "bcd.csv", True),
        ("{a,b*}.csv", "c.csv", False),
        ("a\\*b", "a*b", True),
        ("a\\*b", "axb", False),
        ("a.b", "axb", False),
        ("*", "line\nbreak", True),
        ("ü*", "über", True),
        ("*", "half \ud800", False),
    ],
)
def test_name_patterns_fit_as_hadoops_do(glob: str, name: str, fits: bool) -> None:
    assert glob_pattern(glob).fullmatch(name) is fits


def test_a_pattern_that_cannot_be_read_is_said() -> None:
    with pytest.raises(Unreachable):
        glob_pattern("[z-a]")


def test_an_expression_that_needs_every_way_is_refused_and_one_that_python_cannot_end_is_answered() -> None:
    with pytest.raises(ValueError, match="invalid escape"):
        Linear(r"(a)\1")
    assert Linear("(a+)+b").matches(["a" * 5000, "aab"]) == [False, True]


@pytest.mark.parametrize(
    ("wanted", "name", "fits"),
    [
        ("%", "", True),
        ("a%", "ABC", True),
        ("%c", "abc", True),
        ("%b%", "abc", True),
        ("a%a", "a", False),
        ("a%a", "aa", True),
        ("a_c", "abc", True),
        ("%_", "", False),
        ("_%_", "a", False),
        ("_%_", "ab", True),
        ("ab", "abc", False),
        ("%ab%ab", "abab", True),
        ("%ab%ab", "aab", False),
        ("a%b%c", "a1b2c", True),
        ("a.c", "abc", False),
    ],
)
def test_like_is_sqls(wanted: str, name: str, fits: bool) -> None:
    assert filters.matches_like(wanted, name) is fits


@pytest.mark.parametrize(
    ("tag", "session"),
    [
        ("SparkConnect_OperationTag_User_me_Session_s-1_Operation_o-1", "s-1"),
        ("SparkConnect_OperationTag_User__Session_x_Session_s-1_Operation_o-1", "s-1"),
        ("SparkConnect_OperationTag_User_me_Session_s-1_Operation_", ""),
        ("SparkConnect_OperationTag_User_me_Operation_o-1", ""),
        ("another", ""),
    ],
)
def test_the_session_of_a_query_is_read_from_its_tag(tag: str, session: str) -> None:
    assert eventlog.session_of(tag) == session


def test_a_line_without_end_is_left_out_and_the_next_one_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventlog, "LONGEST", 100)
    seen: list[bytes] = []
    tail = eventlog.LogFollower(eventlog.Path("/nowhere"), lambda event: None)
    monkeypatch.setattr(tail, "hand_on", seen.append)
    for data in (b"on", b"e\ntwo\n", b"x" * 90, b"x" * 90, b"x" * 90, b"x\nthr", b"ee\n"):
        tail.take(data)
    assert seen == [b"one", b"two", b"three"]


def test_words_of_a_plan_are_told_as_before() -> None:
    line = "Project [myUDF(a#1)#2, cat.fun(b), pythonUDF0#3, UserDefinedThing]"
    assert explained.besides(plan(line)) == (")#2", "UserDefined", "myUDF(", "pythonUDF0#", "t.fun(")
