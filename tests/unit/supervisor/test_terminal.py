"""What the person at the terminal reads when an instance is ready."""

from pathlib import Path
from typing import Any

import pytest

from console.supervisor.terminal import REACHES, confinement_lines, sign_ins
from recovery.server.proof import REACHES as REACHED_BY_PROBES

PEOPLE = {"responder": {"role": "responder", "password": "s3cret"}}
KEPT = Path("var/people.json")


def test_the_first_start_shows_the_passwords_and_what_to_do_with_them() -> None:
    said = "\n".join(sign_ins("http://127.0.0.1:8000", PEOPLE, first=True, failed=True, kept=KEPT))

    assert "http://127.0.0.1:8000" in said
    assert "s3cret" in said
    assert "Sign in as" in said
    assert "failed flow" in said
    assert str(KEPT) in said


def test_a_start_without_an_incident_names_no_failed_flow() -> None:
    said = "\n".join(sign_ins("http://127.0.0.1:8000", PEOPLE, first=True, failed=False, kept=KEPT))

    assert "failed flow" not in said
    assert "docs/guide.md" in said


def test_a_later_start_says_where_the_passwords_are_and_shows_none() -> None:
    said = "\n".join(sign_ins("http://127.0.0.1:8000", PEOPLE, first=False, failed=True, kept=KEPT))

    assert "s3cret" not in said
    assert str(KEPT) in said


FULL = {"level": "full", "reached": [], "namespaces": True, "landlock": 7, "why": ""}
NEITHER = {"level": "none", "reached": ["file", "signal"], "namespaces": False, "landlock": 0, "why": "EPERM"}


@pytest.mark.parametrize(("proof", "shown"), [(None, ()), (FULL, ()), (NEITHER, ("file", "signal"))])
def test_what_code_could_reach_is_shown_where_it_could(
    proof: dict[str, Any] | None, shown: tuple[str, ...]
) -> None:
    text = "\n".join(confinement_lines(proof))

    assert tuple(name for name, words in REACHES.items() if words in text) == shown
    assert bool(text) is bool(shown)


def test_everything_that_a_probe_can_reach_has_words() -> None:
    assert tuple(REACHES) == REACHED_BY_PROBES
