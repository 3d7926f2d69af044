"""Roles by environment in the log: which role an entry names, and whose entries somebody sees."""

import io
import json
import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from recovery.audit import evidence, listing, log_operations, reviews
from recovery.audit.actions import append_entry
from recovery.audit.listing import EntryFilter
from recovery.errors import Denied, NotFound
from recovery.models import AuditEntry, Pipeline, RoleIn
from recovery.people.roles import SYSTEM, Actor, AnonymousActor, Grant, Role
from recovery.workflow import actions
from tests import factories as f
from tests.refusals import refused

pytestmark = pytest.mark.django_db


def ada(default: str = "responder", **elsewhere: str) -> Actor:
    return Actor("ada", Role(default), elsewhere={e: Grant(Role(r)) for e, r in elsewhere.items()})


class TestRole:
    @pytest.mark.parametrize(
        ("action", "environment", "role"),
        [
            ("recovery.execute", "production", "viewer"),
            ("recovery.execute", "staging", "admin"),
            ("recovery.execute", "development", "responder"),
            ("recovery.execute", "prod-eu", "viewer"),  # goes by the rules of production
            ("token.create", "", "responder"),
            ("audit.pack", "production", "responder"),  # over the whole log, whatever recovery it names
        ],
    )
    def test_an_entry_names_the_role_that_was_held_where_the_act_was(
        self, action: str, environment: str, role: str
    ) -> None:
        by = ada(production="viewer", staging="admin")
        found = append_entry(action=action, outcome="done", by=by, says="x", environment=environment)
        assert (found.role, found.environment) == (role, environment)

    def test_the_environment_of_a_recovery_counts_where_none_is_named(self) -> None:
        recovery = f.planned(f.failed_flow(f.pipeline(name="orders", environment="staging")))
        found = append_entry(
            action="recovery.stop", outcome="done", by=ada(staging="admin"), says="x", recovery=recovery.label
        )
        assert (found.role, found.environment) == ("admin", "staging")

    @pytest.mark.parametrize(("by", "role"), [(SYSTEM, "system"), (AnonymousActor(), "nobody")])
    def test_a_worker_and_a_stranger_are_what_they_are_everywhere(
        self, by: Actor | AnonymousActor, role: str
    ) -> None:
        found = append_entry(action="step.run", outcome="done", by=by, says="x", environment="production")
        assert found.role == role

    def test_a_denied_opening_names_the_environment_and_the_role_there(self) -> None:
        flow = f.failed_flow(f.pipeline(name="orders", environment="production"))
        with pytest.raises(Denied):
            actions.open_recovery(flow_id=flow.pk, by=ada(production="viewer"))
        found = AuditEntry.objects.get()
        assert (found.code, found.environment, found.role) == ("recovery.open.denied", "production", "viewer")


WHERE = ("development", "staging", "production", "prod-eu", "")

# roles (default, then by environment) -> the environments whose entries are seen; None: the log is not read at all
SEEN: list[tuple[str, dict[str, str], set[str] | None]] = [
    ("auditor", {}, set(WHERE)),
    ("responder", {}, set(WHERE)),
    ("viewer", {}, None),
    ("viewer", {"staging": "auditor"}, None),
    ("none", {"staging": "auditor"}, None),
    ("auditor", {"production": "none"}, {"development", "staging", ""}),
    ("auditor", {"production": "viewer"}, set(WHERE)),
    ("approver", {"development": "none"}, {"staging", "production", "prod-eu", ""}),
    ("auditor", {"development": "none", "production": "none"}, {"staging", ""}),
    ("admin", {"development": "none", "staging": "none", "production": "none"}, {""}),
]


class TestSight:
    @pytest.fixture(autouse=True)
    def log(self) -> None:
        for where in WHERE:
            for number in range(3):
                append_entry(action="recovery.execute", outcome="done", by=Actor("bob", Role.RESPONDER),
                       environment=where, says=f"Act {number}.", target="orders")  # fmt: skip

    @pytest.mark.parametrize(("default", "elsewhere", "seen"), SEEN)
    @pytest.mark.parametrize(
        "query", ["", "who=bob", "q=orders", "who=bob&act=recovery.execute&outcome=done"]
    )
    def test_lists_and_searches_hold_the_entries_of_these_environments(
        self, client: Client, default: str, elsewhere: dict[str, str], seen: set[str] | None, query: str
    ) -> None:
        client.force_login(someone(default, elsewhere))
        answer = client.get(f"/audit?{query}")
        assert answer.status_code == (403 if seen is None else 200)
        if seen is not None:
            assert found_in(answer.content.decode()) == seen

    @pytest.mark.parametrize(("default", "elsewhere", "seen"), [row for row in SEEN if row[2] is not None])
    def test_so_does_an_entry_s_own_page(
        self, client: Client, default: str, elsewhere: dict[str, str], seen: set[str]
    ) -> None:
        client.force_login(someone(default, elsewhere))
        for entry in AuditEntry.objects.filter(actor="bob"):
            there = client.get(f"/audit/{entry.seq}").status_code
            assert there == (200 if entry.environment in seen else 404), entry.environment

    @pytest.mark.parametrize(
        ("default", "elsewhere", "seen"), [row for row in SEEN if row[0] in ("auditor", "admin")]
    )
    def test_so_does_an_export_which_says_that_something_was_left_out(
        self, default: str, elsewhere: dict[str, str], seen: set[str]
    ) -> None:
        by = ada(default, **elsewhere)
        rows = json.loads("".join(log_operations.export_log(fmt="json", by=by)))
        assert {r["environment"] for r in rows if r["actor"] == "bob"} == seen
        told = AuditEntry.objects.get(action="audit.export")
        limited = seen != set(WHERE)
        assert ("may not see" in told.says) is limited
        assert bool(told.after) is limited

    @pytest.mark.parametrize(("default", "elsewhere", "seen"), [row for row in SEEN if row[2] is not None])
    def test_so_does_the_review_queue_and_what_is_hidden_is_not_signed_off(
        self, default: str, elsewhere: dict[str, str], seen: set[str]
    ) -> None:
        by = ada(default, **elsewhere)
        waiting = {"production", "prod-eu"} & seen
        queued = reviews.review_queue(by)
        assert {q.entry.environment for q in queued if q.entry} == waiting
        assert reviews.acts_to_review(by) == 3 * len(waiting)
        if not waiting and default != "responder":
            hidden = AuditEntry.objects.filter(environment="production")[0]
            with refused("not_in_review", NotFound, names=(hidden.seq,)):
                reviews.sign_off(seq=hidden.seq, note="x", by=by)

    @pytest.mark.parametrize(("default", "elsewhere", "seen"), [row for row in SEEN if row[2] is not None])
    def test_pages_are_whole_whatever_is_left_out(
        self, default: str, elsewhere: dict[str, str], seen: set[str]
    ) -> None:
        by, found, before = ada(default, **elsewhere), [], 0
        for _ in range(len(WHERE) * 3):
            page = listing.page_of_entries(EntryFilter(who="bob"), by=by, before=before, size=2)
            found += [e.seq for e in page.entries]
            before = page.before
            if not before:
                break
        expected = AuditEntry.objects.filter(actor="bob", environment__in=seen).order_by("-seq")
        assert found == [e.seq for e in expected]


class TestMovedPipeline:
    def test_the_story_leaves_out_what_was_done_elsewhere_and_evidence_is_whole_or_none(
        self, client: Client
    ) -> None:
        user = someone("auditor", {"production": "none"})
        recovery = f.verified(f.failed_flow(f.pipeline(name="orders", environment="production")))
        append_entry(
            action="recovery.execute", outcome="done", by=SYSTEM, recovery=recovery.label, says="Then."
        )
        Pipeline.objects.update(environment="staging")
        append_entry(action="step.run", outcome="done", by=SYSTEM, recovery=recovery.label, says="Now.")
        client.force_login(user)

        page = client.get(f"/audit/recovery/{recovery.label}").content.decode()
        assert ("Then." in page, "Now." in page) == (False, True)
        by = ada("auditor", production="none")
        with refused("partly_hidden", Denied, names=("production", "ada")):
            evidence.pack_evidence(label=recovery.label, stream=io.BytesIO(), by=by)
        whole = evidence.pack_evidence(label=recovery.label, stream=io.BytesIO(), by=ada("auditor"))
        assert whole.entries == 4  # both acts, the refused try, and this one


def someone(default: str, elsewhere: dict[str, str]) -> User:
    user = f.person(default, "ada")
    for environment, role in elsewhere.items():
        RoleIn.objects.create(person=user.person, environment=environment, role=role)  # type: ignore[attr-defined]
    return user


def found_in(page: str) -> set[str]:
    """The environments of bob's entries that a page lists."""
    seqs = re.findall(r'<th scope="row"><a href="/audit/(\d+)"', page)
    return set(AuditEntry.objects.filter(actor="bob", seq__in=seqs).values_list("environment", flat=True))
