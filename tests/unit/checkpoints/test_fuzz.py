"""The short form of `python -m tests.fuzz`, and every input that it ever found."""

from pathlib import Path

import pytest

from tests.fuzz.engine import Escaped, fuzz, run
from tests.fuzz.targets import FOUND, TARGETS, Target

KEPT = sorted(p for p in FOUND.iterdir() if p.name != "README.md")


@pytest.mark.parametrize("target", TARGETS, ids=[t.name for t in TARGETS])
def test_a_parser_answers_or_says_malformed(target: Target) -> None:
    tried, new = fuzz(target, seed=4, rounds=400)
    assert tried == 400
    assert new > 0


@pytest.mark.parametrize("kept", KEPT, ids=[p.name for p in KEPT])
def test_what_was_found_once_stays_mended(kept: Path) -> None:
    target = next(t for t in TARGETS if kept.name.startswith(f"{t.name}-"))
    run(target, kept.read_bytes(), set())


def test_the_fuzzer_finds_a_bug_that_lies_behind_a_branch() -> None:
    def act(data: bytes) -> object:
        return 1 // (b"9999" not in data)

    with pytest.raises(Escaped) as found:
        fuzz(Target("sample", act, (b"1234",)), seed=1, rounds=20_000)
    assert b"9999" in found.value.data
