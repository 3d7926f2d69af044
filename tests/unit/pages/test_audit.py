"""The audit's pages as people use them: the log, an entry, a story, the review queue, the chain, exports."""

import csv
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from recovery.audit import anchor, checking, guard
from recovery.audit.actions import append_entry
from recovery.models import AskedCheck, AuditCheck, AuditEntry, SignOff
from recovery.people.roles import SYSTEM, Actor, Role
from recovery.workflow import broker
from tests import factories as f
from tests.pages import asked, parse, refusal
from tests.unit.pages.reading import text

pytestmark = pytest.mark.django_db
RESPONDER = Actor("responder", Role.RESPONDER, via="page", request_id="req-1")


@pytest.fixture(autouse=True)
def own_folder(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> None:
    settings.REPRISE_HOME = settings.REPRISE_AUDIT_FOLDER = tmp_path
    monkeypatch.setattr(anchor, "name_of", lambda _: "tests")


@pytest.fixture
def auditor(client: Client) -> Client:
    client.force_login(f.person("auditor"))
    return client


def entries(count: int, **values: Any) -> None:
    for number in range(1, count + 1):
        given = {
            "action": "step.run",
            "outcome": "done",
            "by": SYSTEM,
            "says": f"Ran step {number}.",
            **values,
        }
        append_entry(**given)


def listed(client: Client, query: str) -> list[int]:
    return [
        int(n) for n in re.findall(r'<th scope="row"><a href="/audit/(\d+)"', text(client, f"/audit{query}"))
    ]


def test_the_log_is_read_page_by_page_by_its_place_and_not_by_a_page_number(auditor: Client) -> None:
    entries(120)
    assert listed(auditor, "") == list(range(120, 70, -1))
    assert 'href="?before=71"' in text(auditor, "/audit")
    assert listed(auditor, "?before=71") == list(range(70, 20, -1))
    assert listed(auditor, "?before=21") == list(range(20, 0, -1))
    assert "Older" not in text(auditor, "/audit?before=21")
    assert listed(auditor, "?after=20") == list(range(70, 20, -1))
    assert 'href="?after=70"' in text(auditor, "/audit?after=20")


def test_an_entry_that_comes_meanwhile_moves_no_page(auditor: Client) -> None:
    entries(60)
    before = listed(auditor, "?before=11")
    entries(5)
    assert listed(auditor, "?before=11") == before == list(range(10, 0, -1))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?recovery=7", [4]),
        ("?recovery=R-7", [4]),
        ("?outcome=denied", [4]),
        ("?who=viewer", [4]),
        ("?who=grace", [5]),
        ("?act=recovery.open", [4]),
        ("?env=production", [5]),
        ("?q=Nile", [4]),
        ("?q=REQ-SEARCHED", []),
        ("?q=req-searched", [4]),
        ("?q=ticket 881", [5]),
        ("?q=orders_flow", [5]),
        ("?who=reprise&outcome=done", [5, 3, 2, 1]),
        ("?from=2999-01-01", []),
        ("?to=1999-01-01", []),
        ("?from=nonsense&outcome=nonsense&act=nonsense", [5, 4, 3, 2, 1]),
        ("?before=nonsense", [5, 4, 3, 2, 1]),
    ],
)  # fmt: skip
def test_filters_stand_in_the_address(auditor: Client, query: str, expected: list[int]) -> None:
    entries(3)
    by = Actor("viewer", Role.VIEWER, request_id="req-searched")
    append_entry(action="recovery.open", outcome="denied", by=by, recovery="R-7", says="No, not the Nile.")
    append_entry(
        action="step.run", outcome="done", by=SYSTEM, says="x", behalf="grace", environment="production",
        target="orders_flow", reason="Ticket 881",
    )  # fmt: skip
    assert listed(auditor, query) == expected


def test_a_day_is_meant_whole(auditor: Client) -> None:
    entries(2)
    today = timezone.now().strftime("%Y-%m-%d")
    assert listed(auditor, f"?from={today}&to={today}") == [2, 1]


def test_a_search_reads_a_stretch_and_says_how_far(auditor: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recovery.audit.listing.SEARCHED", 10)
    entries(1, says="the needle")
    entries(25)
    page = text(auditor, "/audit?q=needle")
    assert "back to entry 17" in page
    assert "No entry fits" not in page
    assert listed(auditor, "?q=needle&before=17") == []
    assert listed(auditor, "?q=needle&before=7") == [1]


def test_the_list_asks_the_same_questions_however_long_the_log_is(
    auditor: Client, django_assert_num_queries: Any
) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    counts = []
    auditor.get("/audit")  # the first page of a session notes the session
    for more in (1, 70):
        entries(more, recovery="R-1", behalf="grace")
        for query in ("", "?who=grace&outcome=done&q=step&from=2020-01-01&to=2999-01-01", "?before=60"):
            with CaptureQueriesContext(
                connection,
            ) as made:
                auditor.get(f"/audit{query}")
            counts.append(len(made))
    assert counts[:3] == counts[3:]
    assert max(counts) <= 20


def test_an_entry_shows_where_it_came_from_and_its_place_in_the_chain(auditor: Client) -> None:
    made = append_entry(
        action="recovery.execute", outcome="done", by=RESPONDER, says="Started.", reason="Ticket CRM-881",
        before={"state": "planned", "code": "a = 1\nb = 2\n"}, after={"state": "running", "code": "a = 1\nb = 3\n"},
    )  # fmt: skip
    append_entry(action="recovery.stop", outcome="done", by=RESPONDER, says="Stopped.")
    page = text(auditor, f"/audit/{made.seq}")
    assert "<del>planned</del>" in page
    assert "<ins>running</ins>" in page
    assert 'class="del"' in page
    assert made.hash in page
    assert "Ticket CRM-881" in page
    assert "recovery.<wbr>execute.<wbr>done" in page
    assert parse(page).one("same-request")


def test_a_request_says_its_session_and_address(auditor: Client) -> None:
    auditor.get("/audit/export?format=csv", REMOTE_ADDR="192.0.2.7", HTTP_X_FORWARDED_FOR="203.0.113.9")
    entry = AuditEntry.objects.get(action="audit.export")
    assert entry.address == "192.0.2.7"
    assert re.fullmatch("[0-9a-f]{16}", entry.session)
    assert entry.request_id.startswith("req-")


def test_a_sign_in_names_the_session_that_it_begins(client: Client) -> None:
    f.person("admin")
    client.post("/sign-in", {"name": "admin", "password": f.PASSWORD}, REMOTE_ADDR="192.0.2.7")
    client.post("/sign-out", REMOTE_ADDR="192.0.2.7")
    made, ended = AuditEntry.objects.order_by("seq")
    assert (made.code, ended.code) == ("session.sign_in.done", "session.sign_out.done")
    assert made.session == ended.session != ""
    assert made.address == "192.0.2.7"


def test_an_entry_that_is_not_there_is_404(auditor: Client) -> None:
    assert auditor.get("/audit/9").status_code == 404


def test_the_story_of_a_recovery_is_told_in_order(auditor: Client) -> None:
    recovery = f.verified(f.failed_flow())
    append_entry(
        action="recovery.execute", outcome="done", by=RESPONDER, recovery=recovery.label, says="Started."
    )
    append_entry(action="step.run", outcome="done", by=SYSTEM, recovery=recovery.label, says="Ran.")
    page = text(auditor, f"/audit/recovery/{recovery.label}")
    assert page.index("Started.") < page.index("Ran.")
    assert "system, for responder" in page
    assert auditor.get("/audit/recovery/R-999").status_code == 404


class TestReview:
    @pytest.fixture
    def act(self) -> AuditEntry:
        recovery = f.verified(f.failed_flow(f.pipeline(environment="production")))
        return append_entry(
            action="recovery.execute",
            outcome="done",
            by=RESPONDER,
            recovery=recovery.label,
            says="Started it.",
        )

    def test_an_act_in_production_waits_for_somebody_who_took_no_part(
        self, act: AuditEntry, auditor: Client
    ) -> None:
        assert "Started it." in text(auditor, "/audit/review")
        note = "Plan and proof agree."
        answer = auditor.post(f"/audit/{act.seq}", {"note": note})
        assert answer.status_code == 302
        assert asked(auditor, "/audit/review").one("no-reviews-wait")
        assert note in asked(auditor, "/audit/review?show=signed").one("signed-off").text
        assert note in asked(auditor, f"/audit/{act.seq}").one("signed-off").text
        signed = AuditEntry.objects.get(action="audit.review")
        assert (signed.actor, signed.reason, signed.recovery) == ("auditor", note, act.recovery)

    def test_a_sign_off_without_a_note_is_refused_on_the_page(self, act: AuditEntry, auditor: Client) -> None:
        answer = auditor.post(f"/audit/{act.seq}", {"note": " "})
        assert (answer.status_code, refusal(answer)) == (409, "no_note")
        assert not SignOff.objects.exists()

    def test_who_acted_reads_why_not(self, act: AuditEntry, client: Client) -> None:
        client.force_login(f.person("admin", "responder"))
        assert "responder" in asked(client, f"/audit/{act.seq}").value("may-not-sign-off")
        assert client.post(f"/audit/{act.seq}", {"note": "Fine."}).status_code == 409
        assert AuditEntry.objects.filter(action="audit.review", outcome="failed").exists()

    def test_a_responder_may_not_sign_off(self, act: AuditEntry, client: Client) -> None:
        client.force_login(f.person("responder", "other"))
        assert "other" not in asked(client, f"/audit/{act.seq}").value("may-not-sign-off")
        assert client.post(f"/audit/{act.seq}", {"note": "Fine."}).status_code == 403


class TestChain:
    def test_a_check_is_asked_for_shown_while_it_goes_on_and_kept(
        self, auditor: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(broker, "check", lambda: None)
        entries(3)
        assert "Not checked yet" in text(auditor, "/audit/chain")
        assert auditor.post("/audit/chain").status_code == 302
        assert not AuditCheck.objects.exists(), "the page reads nothing itself"

        page = text(auditor, "/audit/chain")
        assert parse(page).value("check") == "pending"
        assert "check" not in parse(page).acts()
        polled = re.search(r'hx-get="([^"]+)"', page)
        assert polled
        news = polled[1].replace("&amp;", "&")
        assert auditor.get(news).status_code == 204
        AskedCheck.objects.update(alive_at=timezone.now(), read=12345, total=99999)
        assert "12,345 of 99,999 entries read." in text(auditor, news)
        assert auditor.post("/audit/chain").status_code == 409

        AskedCheck.objects.update(alive_at=None)
        checking.run_check(1)
        ended = auditor.get(news)
        assert (ended.status_code, ended["HX-Refresh"]) == (204, "true")
        assert "Chain unbroken" in text(auditor, "/audit")
        assert "check" in asked(auditor, "/audit/chain").acts()
        assert AuditCheck.objects.get().entries == 5, "three, and the two that asked"

    def test_what_came_after_the_last_check_is_not_called_checked(self, auditor: Client) -> None:
        entries(3)
        checking.check_daily()
        checked = AuditCheck.objects.get().last
        later = AuditEntry.objects.latest("seq").seq - checked
        entries(2)
        assert asked(auditor, "/audit").value("unchecked") == str(later + 2)

    def test_a_check_that_found_nothing_out_says_so(self, auditor: Client) -> None:
        AskedCheck.objects.create(
            number=1, by="auditor", at=timezone.now(), ended_at=timezone.now(), problem=checking.LOST
        )
        assert checking.LOST in text(auditor, "/audit/chain")

    def test_a_broken_chain_stands_on_every_page_of_the_audit(self, auditor: Client) -> None:
        from django.db import connection

        entries(3)
        guard.remove_triggers(connection)
        AuditEntry.objects.filter(seq=2).update(says="forged")
        guard.install_triggers(connection)
        checking.check_daily()
        for path in ("/audit", "/audit/2", "/audit/review", "/audit/chain"):
            assert asked(auditor, path).value("log-broken") == "2"


class TestTakingAlong:
    @pytest.mark.parametrize("fmt", ["csv", "json"])
    def test_what_the_filters_show_can_be_taken_along_and_that_is_an_entry_too(
        self, auditor: Client, fmt: str
    ) -> None:
        entries(3)
        append_entry(action="recovery.stop", outcome="denied", by=RESPONDER, says="No.")
        answer = auditor.get(f"/audit/export?format={fmt}&outcome=denied")
        assert f'.{fmt}"' in answer["Content-Disposition"]
        assert answer.streaming
        body = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
        rows = list(csv.DictReader(io.StringIO(body))) if fmt == "csv" else json.loads(body)
        assert [int(r["seq"]) for r in rows] == [4]
        assert AuditEntry.objects.get(action="audit.export").after == {"filters": {"outcome": "denied"}}

    def test_an_export_in_an_unknown_form_is_refused(self, auditor: Client) -> None:
        assert auditor.get("/audit/export?format=xml").status_code == 409

    def test_the_evidence_of_a_recovery_is_a_zip(self, auditor: Client) -> None:
        recovery = f.verified(f.failed_flow())
        answer = auditor.get(f"/audit/recovery/{recovery.label}/evidence.zip")
        names = zipfile.ZipFile(io.BytesIO(answer.content)).namelist()
        assert f"reprise-{recovery.label}/index.html" in names
        assert AuditEntry.objects.get(action="audit.pack").recovery == recovery.label

    @pytest.mark.parametrize("path", ["/audit/export?format=csv", "/audit/recovery/R-1/evidence.zip"])
    def test_a_responder_may_take_nothing_along_and_the_try_is_an_entry(
        self, responder: Client, path: str
    ) -> None:
        assert responder.get(path).status_code == 403
        assert AuditEntry.objects.get().code == "page.denied.denied"
