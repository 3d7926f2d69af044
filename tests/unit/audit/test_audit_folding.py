"""Denials that say the same: one entry at once, one with their number when the window is over."""

from datetime import timedelta
from typing import Any

import pytest

from recovery.audit import actions, folding, log_operations
from recovery.audit.origin import ActOrigin, acting_from
from recovery.models import AuditEntry, DeniedTry
from recovery.people.roles import Actor, AnonymousActor, Role

pytestmark = pytest.mark.django_db


def deny(
    name: str = "vera",
    target: str = "/settings",
    address: str = "10.0.0.1",
    action: str = "page.denied",
    **more: Any,
) -> AuditEntry:
    with acting_from(ActOrigin(address=address)):
        by = Actor(name=name, role=Role.VIEWER, via="page")
        return actions.append_entry(
            action=action,
            outcome="denied",
            by=by,
            target_kind="page",
            target=target,
            says="No.",
            **more,
        )


def end_windows() -> int:
    DeniedTry.objects.update(since=folding.timezone.now() - folding.WINDOW - timedelta(seconds=1))
    return actions.write_folded()


def entries() -> list[tuple[str, str, int]]:
    """(person, target, how many more it tells of), oldest first."""
    rows = AuditEntry.objects.order_by("seq").values_list("actor", "target", "after")
    return [(who, target, (after or {}).get("more", 0)) for who, target, after in rows]


def test_the_first_denial_is_written_at_once_and_the_others_as_one_entry() -> None:
    first = [deny().seq for _ in range(31)]
    assert len(set(first)) == 1
    assert entries() == [("vera", "/settings", 0)]
    assert actions.write_folded() == 0, "the window is not over"
    assert end_windows() == 30
    assert entries() == [("vera", "/settings", 0), ("vera", "/settings", 30)]
    last = AuditEntry.objects.get(seq=2)
    assert (last.action, last.outcome, last.role, last.address) == (
        "page.denied",
        "denied",
        "viewer",
        "10.0.0.1",
    )
    assert last.after["entry"] == first[0]
    assert end_windows() == 0
    assert AuditEntry.objects.count() == 2


@pytest.mark.parametrize(
    "other", [{"name": "otto"}, {"target": "/audit"}, {"address": "10.0.0.2"}, {"environment": "production"}]
)
def test_another_person_target_place_or_environment_is_an_entry_of_its_own(other: dict[str, Any]) -> None:
    deny()
    deny(**other)
    assert AuditEntry.objects.count() == 2
    assert end_windows() == 0


def test_a_denial_after_the_window_is_an_entry_again_and_the_earlier_ones_come_first() -> None:
    deny(), deny(), deny()
    DeniedTry.objects.update(since=folding.timezone.now() - folding.WINDOW)
    deny()
    assert [more for _, _, more in entries()] == [0, 2, 0]
    assert DeniedTry.objects.get().more == 0


def test_who_tries_many_targets_gets_a_number_of_entries_and_one_count() -> None:
    for number in range(folding.MOST * 3):
        deny(target=f"/flows/{number}")
    assert AuditEntry.objects.count() == folding.MOST + 1
    assert deny(name="otto").actor == "otto", "nobody else is counted with them"
    assert end_windows() == folding.MOST * 2 - 1
    assert AuditEntry.objects.order_by("seq").last().after["more"] == folding.MOST * 2 - 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "other", [{"environment": "production"}, {"action": "api.denied"}, {"pipeline": "orders (p-2)"}]
)
def test_no_number_of_decoys_hides_a_kind_of_try_that_was_not_there_yet(other: dict[str, Any]) -> None:
    for number in range(folding.MOST + 5):
        deny(target=f"/flows/{number}")
    before = AuditEntry.objects.count()
    entry = deny(target="/flows/of-production", **other)
    assert AuditEntry.objects.count() == before + 1
    assert (entry.target, entry.environment) == ("/flows/of-production", other.get("environment", ""))
    assert entry.action == other.get("action", "page.denied")
    assert deny(target="/flows/another", **other).seq == entry.seq, "the second of a kind is counted"
    assert end_windows() == 5


def test_each_pipeline_of_one_environment_is_named_however_many_were_tried_before() -> None:
    for number in range(folding.MOST * 2):
        deny(target=f"/flows/{number}", environment="production", pipeline="decoy (p-1)")
    for number in range(4):
        entry = deny(target=f"/of-second/{number}", environment="production", pipeline="orders (p-2)")
        assert (entry.target, entry.environment) == ("/of-second/0", "production")
        assert entry.after == {"pipeline": "orders (p-2)"}
    end_windows()
    told = [entry.after for entry in AuditEntry.objects.order_by("seq") if (entry.after or {}).get("more")]
    assert [(after["pipeline"], after["more"]) for after in told] == [
        ("decoy (p-1)", folding.MOST - 1),
        ("orders (p-2)", 3),
    ]


def test_flows_of_one_name_in_two_pipelines_are_two_targets() -> None:
    deny(target="c.d.f", pipeline="a (p-1)")
    deny(target="c.d.f", pipeline="b (p-2)")
    assert AuditEntry.objects.count() == 2


def test_a_count_of_a_former_release_is_written_too() -> None:
    deny(), deny()
    row = DeniedTry.objects.get()
    row.fields.pop("pipeline")
    row.save()
    assert end_windows() == 1


def test_a_stranger_is_known_by_the_address_whatever_the_name() -> None:
    with acting_from(ActOrigin(address="10.9.9.9")):
        for number in range(folding.MOST * 2):
            actions.append_entry(
                action="session.refused", outcome="denied", by=AnonymousActor(name=f"n{number}", via="page"),
                target_kind="person", target=f"n{number}", says="No.",
            )  # fmt: skip
    assert AuditEntry.objects.count() == folding.MOST + 1


def test_the_chain_holds_with_counted_denials() -> None:
    for target in ("/a", "/b"):
        for _ in range(3):
            deny(target=target)
    end_windows()
    assert AuditEntry.objects.count() == 4
    assert log_operations.verify_and_keep(Actor(name="reprise", role=Role.SYSTEM, via="task")).ok


def test_other_outcomes_are_never_counted() -> None:
    by = Actor(name="vera", role=Role.VIEWER, via="page")
    for _ in range(3):
        actions.append_entry(action="audit.export", outcome="failed", by=by, says="No.")
    assert AuditEntry.objects.count() == 3
