"""Why something fails is one value: as it is stored and sent, and as older releases stored it."""

import json
from pathlib import Path
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.diagnosis import Advice, Diagnosis, StoredDiagnosis
from recovery.contracts.names import ChangeIntent
from tests.unit.contracts import kept

RECORDED = sorted((Path(__file__).parent / "diagnoses").glob("*.json"))
"""As they were stored and sent before there was a value."""


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_diagnosis_keeps_its_bytes(path: Path) -> None:
    stored = json.loads(path.read_text())
    kind = StoredDiagnosis if "failed_at" in stored else Diagnosis
    assert json.dumps(codec.to_json(codec.read(kind, stored))) == json.dumps(stored)


def test_a_diagnosis_of_the_first_release_is_read_and_its_advice_recommends_nothing() -> None:
    [stored] = kept.diagnoses()
    diagnosis = codec.read(StoredDiagnosis, stored)
    assert codec.to_read_json(diagnosis) == stored
    assert diagnosis.advice == tuple(Advice(says, right_if=ChangeIntent.UNKNOWN) for says in stored["do"])
    assert (diagnosis.severity, diagnosis.is_anything_damaged, diagnosis.failed_at) == (3, False, None)


@pytest.mark.parametrize(("damaged", "is_damaged"), [("nothing", False), ("offsets/3", True), ("", None)])
def test_damage_is_something_nothing_or_not_judged(damaged: str, is_damaged: bool | None) -> None:
    assert Diagnosis(damaged=damaged).is_anything_damaged is is_damaged


@pytest.mark.parametrize(
    "changes",
    [{"more": 1}, {"severity": "3"}, {"advice": [{"says": "x", "right_if": "maybe"}]}, {"storage": "lost"}],
    ids=["an unknown key", "a number as text", "no answer", "no storage"],
)
def test_what_is_no_diagnosis_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Diagnosis"):
        codec.read(Diagnosis, changes)
