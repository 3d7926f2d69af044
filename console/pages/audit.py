"""The audit log: filters in the address, one entry, one recovery's story, the queue, the chain, exports."""

from datetime import timedelta
from typing import Any, cast
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from console.middleware import PageRequest
from console.pages.base import is_unchanged, may_why, no_news, page, refusal_of, render_page, require_right
from console.presenters import auditing
from recovery.audit import checking, evidence, keys, listing, log_operations, reviews
from recovery.audit.listing import EntryFilter
from recovery.audit.tags import ACTIONS, OUTCOMES
from recovery.errors import WrongUse
from recovery.models import AuditAnchor, AuditCheck, AuditEntry, Recovery
from recovery.numbers import read_recovery_number, whole
from recovery.people import visible
from recovery.people.roles import SYSTEM, Actor, Right

PER_PAGE = 50
STORY = 200


@page(Right.READ_AUDIT)
def show_log(request: PageRequest, by: Actor) -> HttpResponse:
    """Newest first; a page deep in the log costs as much as the first."""
    wanted = EntryFilter.from_query(request.GET.dict())
    listed = listing.page_of_entries(
        wanted,
        by=by,
        before=_read_number(request, "before"),
        after=_read_number(request, "after"),
        size=PER_PAGE,
    )
    query = urlencode(wanted.query())
    context = {
        **_audit_frame(by, "log"),
        "people": [SYSTEM.name, *User.objects.order_by("username").values_list("username", flat=True)[:500]],
        "acts": sorted(ACTIONS.items(), key=lambda a: a[1]),
        "outcomes": OUTCOMES,
        "environments": visible.visible_environments(by)[::-1],
        "wanted": wanted,
        "rows": auditing.entry_rows(listed.entries),
        "found": listed,
        "query": query,
        "lead": f"{query}&" if query else "",
        "first_page": not request.GET.get("before") and not request.GET.get("after"),
        "story": bool(wanted.recovery) and _is_seen(wanted.recovery, by),
    }
    return render_page(request, "audit/log.html", context)


def _is_seen(label: str, by: Actor) -> bool:
    return Recovery.objects.filter(
        visible.filter_visible(by, "flow__pipeline__"), pk=read_recovery_number(label) or 0
    ).exists()


def _read_number(request: PageRequest, name: str) -> int:
    return whole(request.GET.get(name, "")) or 0


def _audit_frame(by: Actor, tab: str = "") -> dict[str, Any]:
    """What every page of the audit shows: the state of the chain, what waits for review."""
    check = log_operations.newest_check()
    hours = (timezone.now() - check.at) / timedelta(hours=1) if check else None
    newest = AuditEntry.objects.order_by("-seq").values_list("seq", flat=True).first() or 0
    return {
        "section": "audit",
        "tab": tab,
        "standing": auditing.chain_standing(check, hours_since=hours, newest=newest),
        "newest": newest,
        "waiting": reviews.acts_to_review(by),
        "may_export": by.may(Right.EXPORT_AUDIT),
        "why_no_export": may_why(by, Right.EXPORT_AUDIT),
    }


@page(Right.READ_AUDIT, methods=("GET", "POST"))
def show_entry(request: PageRequest, by: Actor, seq: int) -> HttpResponse:
    """Before and after, where the entry is in the chain, and its review; POST signs it off."""
    entry = AuditEntry.objects.filter(visible.filter_entries(by), seq=seq).first()
    if entry is None:
        raise Http404(_explain_missing_entry(seq))
    note, refusal = request.POST.get("note", ""), None
    if request.method == "POST":
        refusal = refusal_of(lambda: reviews.sign_off(seq=seq, note=note, by=by))
        if refusal is None:
            messages.success(request, f"Entry {seq} is signed off.")
            return redirect("audit-review")
    same = (
        AuditEntry.objects.exclude(pk=entry.pk).filter(
            visible.filter_entries(by), request_id=entry.request_id
        )
        if entry.request_id
        else None
    )
    item = reviews.of_entry(entry)
    context = {
        **_audit_frame(by),
        "row": auditing.entry_row(entry),
        "changes": auditing.list_changes(entry.before, entry.after),
        "diffs": auditing.long_diffs(entry.before, entry.after),
        "same": auditing.entry_rows(same.defer("before", "after").order_by("seq")[:20])
        if same is not None
        else [],
        "review": _review_row(item, by) if item else None,
        "anchor": AuditAnchor.objects.filter(kind="mark", seq__gte=seq).order_by("seq").first(),
        "note": note,
        "environment": entry.environment,
    }
    return render_page(request, "audit/entry.html", context, refusal=refusal)


def _explain_missing_entry(seq: int) -> str:
    cut = AuditAnchor.objects.filter(kind="cut", seq__gte=seq).order_by("seq").first()
    if cut is None:
        return f"There is no audit entry {seq}."
    return f"Entry {seq} was archived; it is in {cut.detail.get('file', 'the archive')}."


def _review_row(item: reviews.QueuedReview, by: Actor) -> auditing.ReviewRow:
    return auditing.review_item(item, name=by.name, missing_right=may_why(by, Right.REVIEW_AUDIT))


@page(Right.READ_AUDIT)
def show_review_queue(request: PageRequest, by: Actor) -> HttpResponse:
    """What someone who took no part has to look at; signed off on the entry's own page."""
    signed = request.GET.get("show") == "signed"
    rows = [_review_row(q, by) for q in reviews.review_queue(by, signed=signed)]
    return render_page(
        request, "audit/review.html", {**_audit_frame(by, "review"), "rows": rows, "signed": signed}
    )


@page(Right.READ_AUDIT)
def show_story(request: PageRequest, by: Actor, label: str) -> HttpResponse:
    """Everything that was done about one recovery, in order."""
    recovery = (
        Recovery.objects.select_related("flow__pipeline__workspace")
        .filter(pk=read_recovery_number(label) or 0)
        .first()
    )
    visible.require_visible_flow(
        recovery.flow if recovery else None, by, f"There is no recovery {label[:20]}."
    )
    assert recovery is not None
    after = _read_number(request, "after")
    entries = AuditEntry.objects.filter(
        visible.filter_entries(by), recovery=recovery.label, seq__gt=after
    ).order_by("seq")
    story = list(entries.defer("before", "after")[: STORY + 1])
    context = {
        **_audit_frame(by),
        "recovery": recovery,
        "rows": auditing.entry_rows(story[:STORY]),
        "more": story[STORY - 1].seq if len(story) > STORY else 0,
        "workspace": recovery.flow.pipeline.workspace.name,
        "environment": recovery.flow.pipeline.environment,
    }
    return render_page(request, "audit/story.html", context)


@page(Right.READ_AUDIT)
def download_evidence(request: PageRequest, by: Actor, label: str) -> HttpResponse:
    """The evidence of one recovery as a ZIP file; taking it is an entry."""
    require_right(request, by, Right.EXPORT_AUDIT)
    content, made = evidence.to_bytes(label=label, by=by)
    name = f"reprise-{made.recovery}-evidence.zip"
    return HttpResponse(content, content_type="application/zip", headers=_attachment_headers(name))


@page(Right.READ_AUDIT, methods=("GET", "POST"))
def show_chain(request: PageRequest, by: Actor) -> HttpResponse:
    """How the last checks ended, what signs the log; POST has a worker read the whole log now."""
    if request.GET.get("part") == "check":
        return _check_part(request)
    refusal = None
    if request.method == "POST":
        refusal = refusal_of(lambda: checking.request_check(by=by))
        if refusal is None:
            return redirect("audit-chain")
    context = {
        **_audit_frame(by, "chain"),
        **_check_context(),
        "checks": AuditCheck.objects.all()[:10],
        "anchor": AuditAnchor.objects.filter(kind="mark").order_by("-seq").first(),
        "cut": AuditAnchor.objects.filter(kind="cut").order_by("-seq").first(),
        "keys": sorted(keys.public_keys()),
        "head": AuditEntry.objects.order_by("-seq").first(),
    }
    return render_page(request, "audit/chain.html", context, refusal=refusal)


def _check_context() -> dict[str, Any]:
    """The check that was asked for: how far it is, or how it ended."""
    asked, now = checking.newest_check_request(), timezone.now()
    open_ = checking.is_open(asked, now)
    return {"check": auditing.check_progress(asked, open=open_, lost=checking.LOST), "poll": open_}


def _check_part(request: PageRequest) -> HttpResponse:
    """For the poller: news of the check; the whole page once it has ended, with its banner and its table."""
    context = _check_context()
    if not context["poll"]:
        return HttpResponse(status=204, headers={"HX-Refresh": "true"})
    if is_unchanged(request, context["check"].version):
        return no_news()
    return render(request, "audit/_check.html", context)


@page(Right.READ_AUDIT)
def export_list(request: PageRequest, by: Actor) -> HttpResponse:
    """What the list shows, all of it, as a file; the export is an entry of the log."""
    require_right(request, by, Right.EXPORT_AUDIT)
    fmt = request.GET.get("format", "csv")
    if fmt not in ("csv", "json"):
        raise WrongUse("The audit log is exported as csv or json.")
    pieces = log_operations.export_log(fmt=fmt, by=by, wanted=EntryFilter.from_query(request.GET.dict()))
    kind = "text/csv" if fmt == "csv" else "application/json"
    name = f"reprise-audit-{timezone.now():%Y%m%dT%H%M%SZ}.{fmt}"
    streamed = StreamingHttpResponse(
        pieces, content_type=f"{kind}; charset=utf-8", headers=_attachment_headers(name)
    )
    return cast(HttpResponse, streamed)  # both are HttpResponseBase, which is all that anybody asks of it


def _attachment_headers(name: str) -> dict[str, str]:
    return {"Content-Disposition": f'attachment; filename="{name}"'}
