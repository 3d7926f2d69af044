"""The review queue: acts in production and break-glass, looked at afterwards by someone who took no part."""

from dataclasses import dataclass

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from recovery.audit import reviewing
from recovery.audit.actions import audited_attempt
from recovery.errors import NotFound, Refused, WrongUse
from recovery.models import AuditEntry, ReviewItem, SignOff
from recovery.people import visible
from recovery.people.roles import SYSTEM, Actor, Right

READING = frozenset({"page.denied", "command.denied", "api.denied", "audit.pack", "audit.review"})
"""Acts on a recovery by which no one takes part in it."""

LONGEST_NOTE = 2000


@dataclass(frozen=True)
class QueuedReview:
    """One item with its entry (None once that is archived) and who took part in what it is about."""

    item: ReviewItem
    entry: AuditEntry | None
    took_part: frozenset[str]


def _visible_items(by: Actor) -> QuerySet[ReviewItem]:
    """Those whose entry `by` sees. Of an archived one only the number is left, which everybody sees."""
    hidden = AuditEntry.objects.filter(seq=OuterRef("seq")).exclude(visible.filter_entries(by))
    items = ReviewItem.objects.select_related("sign_off")
    return items.exclude(Exists(hidden)) if visible.filter_entries(by) else items


def acts_to_review(by: Actor) -> int:
    return _visible_items(by).filter(sign_off=None).count()


def review_queue(by: Actor, *, signed: bool = False, most: int = 200) -> list[QueuedReview]:
    """What waits, oldest first; with `signed`, what was signed off, newest first. Three queries, however many."""
    items = _visible_items(by)
    items = (
        items.exclude(sign_off=None).order_by("-seq")
        if signed
        else items.filter(sign_off=None).order_by("seq")
    )
    chosen = list(items[:most])
    entries = AuditEntry.objects.filter(seq__in=[i.seq for i in chosen]).defer("before", "after")
    by_seq = {e.seq: e for e in entries}
    people = _took_part({e.recovery for e in by_seq.values() if e.recovery})
    return [QueuedReview(i, by_seq.get(i.seq), _people_in(by_seq.get(i.seq), people)) for i in chosen]


def of_entry(entry: AuditEntry) -> QueuedReview | None:
    """The item of one entry, if it is one."""
    item = ReviewItem.objects.select_related("sign_off").filter(seq=entry.seq).first()
    people = _took_part({entry.recovery} if entry.recovery else set()) if item else {}
    return QueuedReview(item, entry, _people_in(entry, people)) if item else None


def sign_off(*, seq: int, note: str, by: Actor) -> SignOff:
    """Say that entry `seq` was looked at. Raises Denied, NotFound, WrongUse (no note), Refused (took part; signed)."""
    with audited_attempt(
        action="audit.review", by=by, target_kind="audit entry", target=str(seq), reason=note
    ) as trying:
        by.check(Right.REVIEW_AUDIT)
        item = ReviewItem.objects.select_for_update().filter(seq=seq).first()
        if item is None:
            raise NotFound(f"Entry {seq} is not in the review queue.", code="not_in_review")
        entry = AuditEntry.objects.filter(seq=seq).first()
        if (
            entry is not None
            and not AuditEntry.objects.filter(visible.filter_entries(by), pk=entry.pk).exists()
        ):
            raise NotFound(f"Entry {seq} is not in the review queue.", code="not_in_review")
        if entry is not None:
            trying.recovery = entry.recovery
            took_part = _people_in(entry, _took_part({entry.recovery} if entry.recovery else set()))
            if refusal := reviewing.refusal_of_reviewer(by.name, took_part):
                raise Refused(refusal, code="took_part")
        if not note.strip() or len(note) > LONGEST_NOTE:
            raise WrongUse(
                f"A sign-off needs a note of 1 to {LONGEST_NOTE} characters: what was looked at, and found.",
                code="no_note",
            )
        if earlier := SignOff.objects.filter(item=item).first():
            raise Refused(
                f"Entry {seq} was signed off by {earlier.by} on {earlier.at:%Y-%m-%d %H:%M} UTC.",
                code="signed_off",
            )
        made = SignOff(item=item, by=by.name, note=note.strip(), at=timezone.now())
        made.save(force_insert=True)
        trying.done(f"{by.name} reviewed entry {seq}.", after={"why": item.why})
    return made


def _took_part(recoveries: set[str]) -> dict[str, set[str]]:
    """Everybody who did something in these recoveries, by recovery."""
    rows = AuditEntry.objects.filter(recovery__in=recoveries, outcome__in=("done", "unknown"))
    pairs = rows.exclude(action__in=READING).values_list("recovery", "actor", "behalf").order_by().distinct()
    people: dict[str, set[str]] = {}
    for recovery, actor, behalf in pairs if recoveries else ():
        people.setdefault(recovery, set()).update({actor, behalf} - {"", SYSTEM.name})
    return people


def _people_in(entry: AuditEntry | None, people: dict[str, set[str]]) -> frozenset[str]:
    if entry is None:
        return frozenset()
    own = {entry.actor, entry.behalf} - {"", SYSTEM.name}
    return frozenset(own | people.get(entry.recovery, set()))
