"""Why a strategy cannot run is a code; no decision reads the sentence that people see."""

import re
from dataclasses import replace
from typing import Any

import pytest

from recovery.checkpoints.findings import finding
from recovery.checkpoints.report import StateOperator
from recovery.contracts import codec
from recovery.contracts.criterion_values import ExpectedOthers
from recovery.contracts.names import StepKind, name_strategy
from recovery.contracts.option import SETTLED, BlockerCode, Option, SettledBy
from recovery.contracts.positions import SourceMapping
from recovery.contracts.readers import SourceReader
from recovery.strategies.base import CodeFacts, Facts
from recovery.strategies.catalogue import judge_all, needs_start, settled_later
from recovery.verification.checks import nothing_else_changed
from tests import factories as f
from tests.unit.strategies.facts import WITH, facts
from tests.unit.strategies.streams import stream
from tests.unit.verification.world import World


def stored(given: Facts) -> dict[str, Option]:
    return {o.strategy: codec.read(Option, codec.to_json(o)) for o in judge_all(given)}


def shared_by(flow: str) -> Facts:
    return replace(
        facts(), between=(finding("LOCATION_SHARED", queries=f"{flow} (web), other (orders)", place="/a/b"),)
    )


@pytest.mark.parametrize("flow", ["geocode", "clicks", "not known", "nothing needs a reset"])
def test_a_shared_checkpoint_blocks_whatever_the_flow_is_called(flow: str) -> None:
    found = stored(shared_by(flow))
    assert {o.blocker.code for n, o in found.items() if n != "empty" and o.blocker} == {"storage_shared"}
    assert not any(settled_later(o) for o in found.values())


@pytest.mark.parametrize("update", ["77a", "code"])
def test_a_running_update_blocks_whatever_its_id(update: str) -> None:
    found = stored(facts(active_update=update))["continue"]
    assert found.blocker is not None
    assert (found.blocker.code, settled_later(found)) == ("update_running", False)


def test_a_hard_blocker_is_not_settled_because_sources_are_mapped_too() -> None:
    option = stored(shared_by("geocode"))["continue"].model_copy(update={"mapping": SourceMapping()})
    assert not settled_later(option)


def test_code_that_keeps_state_is_settled_by_other_code() -> None:
    given = facts(
        new_code=CodeFacts({"/p/q.py": WITH}, ("stateStoreSave",), sources=(SourceReader(path="/in"),))
    )
    found = stored(given)["continue"]
    assert codec.to_json(found)["blocker"] == {"code": "code_keeps_state", "settled_by": "patch"}
    assert settled_later(found)


@pytest.mark.parametrize(
    "code", [c for c, by in SETTLED.items() if by in (SettledBy.START, SettledBy.SOURCES)]
)
def test_a_start_settles_only_what_takes_one(code: BlockerCode) -> None:
    def blocked(strategy: str) -> Option:
        return f.judged_option(strategy, blocked="…", blocker={"code": code.value})

    assert settled_later(blocked("continue"))
    assert not settled_later(blocked("revert"))


@pytest.mark.parametrize(
    "changes",
    [
        {"blocked": "The code has a step that has no state."},
        {"blocked": "…", "blocker": {"code": "of a later version"}},
        {"blocked": None, "blocker": None},
    ],
)
def test_an_option_of_another_version_is_read_and_settled_by_nothing(changes: dict[str, Any]) -> None:
    option = f.judged_option("continue", **changes)
    assert option.blocked == changes["blocked"]
    assert option.blocker is None or option.blocker.code is None
    assert not settled_later(option)
    assert not needs_start(option)


def test_a_shared_query_id_blocks_all_but_what_begins_with_a_new_one() -> None:
    given = replace(facts(), between=(finding("QUERY_ID_SHARED", flows="a, b", id="q"),))
    found = {n: o.blocker.code if o.blocker else None for n, o in stored(given).items()}
    assert found["continue"] == found["revert"] == found["rewind"] == BlockerCode.QUERY_ID_SHARED
    assert found["full-refresh"] is None


@pytest.mark.parametrize("code", [BlockerCode.CODE_KEEPS_SAME_STATE, BlockerCode.CODE_KEEPS_STATE])
def test_a_plain_program_is_pointed_to_no_way_out_that_it_lacks(code: BlockerCode) -> None:
    """It has neither a replay nor a full refresh."""
    dedupe = (StateOperator(0, "dedupe", 2),) if code is BlockerCode.CODE_KEEPS_SAME_STATE else ()
    given = facts()
    given = replace(given, checkpoint=replace(given.checkpoint, state_operators=dedupe))
    given = replace(given, new_code=CodeFacts({"/p/q.py": WITH}, ("dedupe",), sources=given.new_code.sources))
    for is_plain in (False, True):
        option = next(o for o in judge_all(replace(given, is_plain=is_plain)) if o.strategy == "continue")
        assert option.blocker is not None
        assert option.blocker.code is code
        named = {way for way in ("rebuild", "reread", "prime", "full-refresh") if way in option.blocker.says}
        assert ("full-refresh" in named, "prime" in named) == (not is_plain, is_plain)
        assert not (is_plain and "rebuild" in named)


@pytest.mark.parametrize("operators", [(), ("dedupe",)])
def test_what_a_plain_program_lacks_points_to_no_way_that_its_code_bars(operators: tuple[str, ...]) -> None:
    given = replace(facts(), is_plain=True)
    code = CodeFacts({"/p/q.py": WITH}, operators, sources=given.new_code.sources)
    found = stored(replace(given, new_code=code))
    barred = {
        name_strategy(name)
        for name, option in found.items()
        if option.blocker
        and option.blocker.code in (BlockerCode.CODE_KEEPS_NO_STATE, BlockerCode.CODE_KEEPS_STATE)
    }
    for lacking in ("rebuild", "replay"):
        blocker = found[lacking].blocker
        assert blocker is not None
        assert blocker.code is BlockerCode.REPLAY_OF_PROGRAM
        assert not [way for way in barred if re.search(rf"\b{way}\b", blocker.says)]


OF_PIPELINES = re.compile(r"\b(?:updates?|pipelines?|workspace|full-refresh|rebuild)\b", re.IGNORECASE)
PLAIN = {
    "continue": facts(),
    "into a sink": stream(),
    "a step that is new": stream(
        new_code=CodeFacts({"/p/q.py": WITH}, ("dedupe",), sources=facts().new_code.sources)
    ),
    "it runs": replace(facts(), active_update="u-9"),
}


@pytest.mark.parametrize("given", PLAIN.values(), ids=PLAIN)
@pytest.mark.parametrize("strategy", ["continue", "revert", "rewind", "prime", "repair"])
def test_a_way_out_of_a_plain_program_speaks_of_no_pipeline(given: Facts, strategy: str) -> None:
    option = stored(replace(given, is_plain=True))[strategy]
    said = [option.blocker.says] if option.blocker else [
        *(s.says for s in option.steps), *(c.says for c in option.criteria), *(f.do for f in option.findings)
    ]  # fmt: skip
    assert not [text for text in said if OF_PIPELINES.search(text)]


@pytest.mark.parametrize("strategy", ["continue", "rewind", "prime"])
def test_the_reset_of_a_plain_program_is_two_renames_and_that_of_a_flow_a_new_version(strategy: str) -> None:
    given = facts()
    if strategy != "continue":
        code = CodeFacts({"/p/q.py": WITH}, ("dedupe",), sources=given.new_code.sources)
        given = replace(given, new_code=code)
    for is_plain in (False, True):
        option = next(o for o in judge_all(replace(given, is_plain=is_plain)) if o.strategy == strategy)
        seed = next(s for s in option.steps if s.kind is StepKind.SEED)
        assert ("renames" in seed.says, "renames" in option.rollback) == (is_plain, is_plain)
        assert ("version stays untouched" in seed.says) is not is_plain


@pytest.mark.parametrize(("recovery", "names"), [("R-3", ["R-3"]), ("", [])])
def test_a_plan_names_the_old_checkpoint_as_it_will_be_called(recovery: str, names: list[str]) -> None:
    given = replace(facts(), is_plain=True, recovery=recovery)
    seed = next(s for s in stored(given)["continue"].steps if s.kind is StepKind.SEED)
    assert re.findall(r"\.reprise-(.+)-before", seed.says) == names


def test_a_plain_program_s_criteria_name_no_pipeline() -> None:
    watched = nothing_else_changed(ExpectedOthers(), World().evidence(others_before={}, others_after={}))
    assert (watched.ok, OF_PIPELINES.search(watched.why)) == (True, None)


KEEPS_STATE = CodeFacts({"/p/q.py": WITH}, ("stateStoreSave",), sources=({"path": "/in"},))
OWN_STATE = CodeFacts({"/p/q.py": WITH}, ("flatMapGroupsWithState",), sources=({"path": "/in"},))
REFRESH_BLOCKED = {
    "a plain program": {"is_plain": True},
    "a table that another flow writes too": {"writers": ("other_flow",)},
}


@pytest.mark.parametrize("why", REFRESH_BLOCKED)
@pytest.mark.parametrize(
    "code", [facts().new_code, KEEPS_STATE, OWN_STATE], ids=["no state", "windows", "own"]
)
def test_no_option_sends_to_a_full_refresh_that_cannot_run(why: str, code: CodeFacts) -> None:
    judged = stored(facts(**REFRESH_BLOCKED[why], new_code=code, code=code))
    assert judged["full-refresh"].blocker is not None
    texts = {
        name: [*(f.do for f in o.findings), o.blocker.says if o.blocker else ""] for name, o in judged.items()
    }
    assert not {name for name, says in texts.items() if "full-refresh" in " ".join(says)}
