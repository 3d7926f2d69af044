"""A plan is what was approved, to the byte; whatever moves afterwards voids it."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.contracts import codec
from recovery.contracts.codec import canonical_json, seal
from recovery.contracts.plan import Preconditions
from recovery.plans.drift import compare

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_the_order_of_keys_does_not_change_the_seal(body: dict[str, Any]) -> None:
    assert seal(dict(reversed(list(body.items())))) == seal(body)


@given(st.dictionaries(st.text(), JSON, min_size=1, max_size=5), st.data())
def test_any_changed_value_changes_the_seal(body: dict[str, Any], data: st.DataObject) -> None:
    key = data.draw(st.sampled_from(sorted(body)))
    other = {
        **body,
        key: data.draw(JSON.filter(lambda v: canonical_json({"v": v}) != canonical_json({"v": body[key]}))),
    }
    assert seal(other) != seal(body)


def test_not_a_number_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        seal({"rows": float("nan")})


def planned(**changes: Any) -> Preconditions:
    stored = {
        "checkpoint": {"version": 0, "last_committed": 2, "fingerprint": "a" * 64},
        "code": {"/p/q.py": "1" * 64},
        "sink": {"head": 2, "fingerprint": "s" * 64},
        "settings": {"configuration": "4" * 64, "catalog": "5" * 64},
        "active_update": None,
    }
    return codec.read(Preconditions, stored | changes)


@pytest.mark.parametrize(
    ("part", "value", "what", "words"),
    [
        ("active_update", "u-9", "update", "u-9 is running"),
        ("checkpoint", {"version": 0, "last_committed": 3, "fingerprint": "b"}, "checkpoint", "Batch 3"),
        ("checkpoint", {"version": 1, "last_committed": 2, "fingerprint": "b"}, "checkpoint", "version 1"),
        ("checkpoint", {"version": 0, "last_committed": 2, "fingerprint": "b"}, "checkpoint", "have changed"),
        ("sink", {"head": 3, "fingerprint": "t"}, "sink", "batch 3"),
        ("sink", {"head": 2, "fingerprint": "t"}, "sink", "have changed"),
        ("sink", {"head": None, "fingerprint": "t", "declared": "kafka"}, "sink", "another one"),
        ("code", {"/p/q.py": "2" * 64}, "code", "was edited"),
        ("code", {}, "code", "is gone"),
        ("code", {"/p/q.py": "1" * 64, "/p/new.py": "3"}, "code", "is new"),
        (
            "settings",
            {"configuration": "6" * 64, "catalog": "5" * 64},
            "settings",
            "The pipeline's configuration changed",
        ),
        ("settings", {"configuration": "4" * 64}, "settings", "The pipeline's catalog changed"),
    ],
)
def test_whatever_moved_is_said(part: str, value: Any, what: str, words: str) -> None:
    drift = compare(planned(), planned(**{part: value}))
    assert [d.what for d in drift] == [what]
    assert words in drift[0].says


def test_nothing_moved_is_no_drift() -> None:
    assert compare(planned(), planned()) == []


def test_what_a_plan_did_not_note_of_the_settings_is_not_compared() -> None:
    """Plans that were sealed before: nothing, or fewer parts."""
    now = planned(settings={"catalog": "5" * 64, "configuration": "6" * 64})
    for noted in ({}, {"catalog": "5" * 64}):
        assert compare(planned(settings=noted), now) == []
