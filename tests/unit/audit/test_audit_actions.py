"""Recording, trying, exporting: what ends up in the log, and what does not."""

import csv
import io
import json

import pytest
from django.contrib.auth.models import User

from recovery.audit import tags
from recovery.audit.actions import append_entry, audited_attempt
from recovery.audit.exporting import csv_cell
from recovery.audit.listing import EntryFilter
from recovery.audit.log_operations import export_log, verify_chain
from recovery.errors import Denied, OutcomeUnknown, Refused, Unreachable, WrongUse
from recovery.models import AuditEntry
from recovery.people.roles import SYSTEM, Actor, AnonymousActor, Right
from tests.refusals import lacking

BUG = "Stopped by an unexpected error (ZeroDivisionError); nothing was changed."
pytestmark = pytest.mark.django_db


def test_an_entry_holds_who_what_on_what_before_and_after(auditor: Actor) -> None:
    append_entry(
        action="recovery.open", outcome="done", by=auditor, target_kind="flow", target="main.shop.orders",
        recovery="R-7", says="Opened R-7.", before={"state": "failed"}, after={"state": "diagnosing"},
    )  # fmt: skip
    entry = AuditEntry.objects.get()
    assert (entry.actor, entry.role, entry.via, entry.request_id) == (
        "auditor",
        "auditor",
        "command",
        "req-1",
    )
    assert (entry.action, entry.outcome, entry.target_kind, entry.target) == (
        "recovery.open",
        "done",
        "flow",
        "main.shop.orders",
    )
    assert (entry.recovery, entry.says) == ("R-7", "Opened R-7.")
    assert (entry.before, entry.after) == ({"state": "failed"}, {"state": "diagnosing"})


@pytest.mark.parametrize(("action", "outcome"), [("recovery.opne", "done"), ("recovery.open", "fine")])
def test_an_unregistered_code_is_an_error(action: str, outcome: str) -> None:
    with pytest.raises(ValueError, match=r"registered|is none of"):
        append_entry(action=action, outcome=outcome, by=SYSTEM, says="x")
    assert not AuditEntry.objects.exists()


def test_a_stranger_is_nobody() -> None:
    append_entry(
        action="session.refused", outcome="denied", by=AnonymousActor(name="mallory", via="page"), says="No."
    )
    assert AuditEntry.objects.values_list("actor", "role", "via").get() == ("mallory", "nobody", "page")


def test_long_text_is_cut_rather_than_refused() -> None:
    entry = append_entry(action="step.run", outcome="done", by=SYSTEM, target="x" * 5000, says="y")
    assert len(entry.target) == 400
    assert verify_chain()["ok"]


@pytest.mark.parametrize(
    ("error", "outcome", "says"),
    [
        (Denied("You may not."), "denied", "You may not."),
        (Refused("The plan is stale."), "failed", "The plan is stale."),
        (Unreachable("Spark does not answer."), "failed", "Spark does not answer."),
        (OutcomeUnknown("Nobody saw it."), "unknown", "Nobody saw it."),
        (ZeroDivisionError("secret"), "failed", BUG),
    ],
)  # fmt: skip
def test_a_failed_attempt_leaves_its_row_and_nothing_else(
    auditor: Actor, error: Exception, outcome: str, says: str
) -> None:
    @audited_attempt(action="recovery.open", by=auditor, target_kind="flow", target="f")
    def body() -> None:
        User.objects.create(username="half-done")
        raise error

    with pytest.raises(type(error)):
        body()
    assert not User.objects.exists()
    assert AuditEntry.objects.values_list("action", "outcome", "says", "target").get() == (
        "recovery.open",
        outcome,
        says,
        "f",
    )


def test_a_good_attempt_is_one_row_with_what_is_known_by_then(auditor: Actor) -> None:
    with audited_attempt(action="recovery.open", by=auditor, target_kind="flow") as trying:
        trying.target, trying.recovery = "main.shop.orders", "R-1"
        trying.done("Opened R-1.", after={"n": 1})
    entry = AuditEntry.objects.get()
    assert (entry.target, entry.recovery, entry.outcome, entry.after) == (
        "main.shop.orders",
        "R-1",
        "done",
        {"n": 1},
    )


def test_an_attempt_may_decorate_a_function(auditor: Actor) -> None:
    @audited_attempt(action="plan.seal", by=auditor)
    def seal() -> None:
        raise Refused("No.")

    for _ in range(2):
        with pytest.raises(Refused):
            seal()
    assert AuditEntry.objects.filter(outcome="failed").count() == 2


def test_every_code_has_words() -> None:
    assert all(words and "." in code for code, words in tags.ACTIONS.items())


def exported(fmt: str, by: Actor, **wanted: str) -> str:
    return "".join(export_log(fmt=fmt, by=by, wanted=EntryFilter(**wanted)))


@pytest.mark.usefixtures("five_entries")
class TestExport:
    def test_json_holds_every_field_and_its_own_row_last(self, auditor: Actor) -> None:
        rows = json.loads(exported("json", auditor))
        assert [r["seq"] for r in rows] == [1, 2, 3, 4, 5, 6]
        assert rows[-1]["action"] == "audit.export"
        assert rows[1]["prev_hash"] == rows[0]["hash"]
        assert rows[0]["code"] == "step.run.done"

    def test_an_empty_selection_is_still_json_and_csv(self, auditor: Actor) -> None:
        assert json.loads(exported("json", auditor, who="nobody")) == []
        assert len(exported("csv", auditor, who="nobody").splitlines()) == 1

    def test_csv_has_a_header_and_a_line_an_entry(self, auditor: Actor) -> None:
        append_entry(
            action="step.run", outcome="done", by=SYSTEM, target="=cmd()", says="a\nb", after={"x": 1}
        )
        rows = list(csv.DictReader(io.StringIO(exported("csv", auditor))))
        assert len(rows) == 7
        assert (rows[5]["target"], rows[5]["says"], rows[5]["after"]) == ("'=cmd()", "a\nb", '{"x": 1}')
        assert (rows[5]["words"], rows[5]["code"]) == ("ran a step", "step.run.done")

    @pytest.mark.parametrize(
        "first",
        [
            "\u200b",
            "\ufeff",
            "\u2060",
            "\u00ad",
            "\u202e",
            "\u00a0",
            "\u3000",
            "\u2028",
            "\x1f",
            "\ufe0f",
            "\u3164",
        ],
    )
    @pytest.mark.parametrize("sign", ["=", "+", "-", "@", "＝", "﹦", "﹢", "﹣", "﹫"])
    def test_a_formula_behind_what_shows_nothing_is_only_text(self, first: str, sign: str) -> None:
        assert csv_cell(f"{first} {first}{sign}1") == f"'{first} {first}{sign}1"

    @pytest.mark.parametrize("text", ["orders", "\ufefforders", "\u200b1 = 1", "é=1", "\u200b", ""])
    def test_other_text_stays_as_it_is(self, text: str) -> None:
        assert csv_cell(text) == text

    @pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\n=1", "  =1", "＝1"])
    def test_what_a_spreadsheet_would_run_is_only_text(self, text: str) -> None:
        assert csv_cell(text) == f"'{text}"

    def test_filters_of_the_list_are_those_of_the_export_and_are_written_down(self, auditor: Actor) -> None:
        append_entry(action="recovery.open", outcome="denied", by=auditor, says="No.")
        rows = json.loads(exported("json", auditor, outcome="denied"))
        assert [r["seq"] for r in rows] == [6]
        assert AuditEntry.objects.get(seq=7).after == {"filters": {"outcome": "denied"}}

    def test_a_viewer_may_not_and_the_try_is_a_row(self, viewer: Actor) -> None:
        with lacking(Right.EXPORT_AUDIT):
            export_log(fmt="json", by=viewer)
        assert AuditEntry.objects.values_list("actor", "action", "outcome").first() == (
            "viewer",
            "audit.export",
            "denied",
        )

    def test_another_format_is_refused(self, auditor: Actor) -> None:
        with pytest.raises(WrongUse, match="csv or json"):
            export_log(fmt="xml", by=auditor)

    def test_a_check_by_somebody_is_a_row(self, auditor: Actor, viewer: Actor) -> None:
        assert verify_chain(by=auditor)["ok"]
        with pytest.raises(Denied):
            verify_chain(by=viewer)
        assert list(AuditEntry.objects.values_list("action", "outcome")[:2]) == [
            ("audit.verify", "denied"),
            ("audit.verify", "done"),
        ]
