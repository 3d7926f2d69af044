"""Finds what a person remembers: a flow, a pipeline, an error's text, a recovery by its label, a plan by its hash, a
person.

Reads only, and only what `by` may see. Bounded: of each kind at most `MOST`, whatever was asked; no more than `WORDS`
words and `LONGEST` characters count.
"""

import json
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import reduce
from operator import and_, or_
from typing import Final, TypeVar

from django.contrib.auth.models import User
from django.db.models import Case, Model, Q, QuerySet, TextField, When
from django.db.models.functions import Cast

from recovery.models import Flow, Pipeline, Plan, Recovery, Vote
from recovery.numbers import whole
from recovery.people.roles import Actor, Right
from recovery.people.visible import filter_visible

Row = TypeVar("Row", bound=Model)

MOST: Final = 20
WORDS: Final = 8
LONGEST: Final = 200
LABEL: Final = re.compile(r"(?:[Rr]-?)?(\d{1,18})")
HASH: Final = re.compile(r"[0-9a-f]{4,64}")
NAMES: Final = ("name", "dataset", "pipeline__name", "pipeline__workspace__name", "condition")
"""Columns of a flow in which each word is looked for."""


PIPELINE_NAMES: Final = ("name", "pipeline_id", "workspace__name")
"""Columns of a pipeline in which each word is looked for."""


FAILED_FIRST: Final = Case(When(state="failed", then=0), default=1)
"""What is cut off is never a flow that fails, as long as others are shown."""


class FoundBy(StrEnum):
    """Why a recovery was found."""

    LABEL = "label"
    PLAN = "plan"
    PERSON = "person"
    ERROR = "error"


@dataclass(frozen=True)
class FoundRecovery:
    """A recovery and why it was found; `plan_hash` where that was its plan."""

    recovery: Recovery
    by: FoundBy
    plan_hash: str = ""


@dataclass(frozen=True)
class FoundPerson:
    """A name that takes part in recoveries or, for who manages people, has an account (`account`: its person's key)."""

    name: str
    account: int | None


@dataclass(frozen=True)
class SearchResult:
    """What a search found. `pipelines`: by their names, or by the text of a failure of the whole pipeline, which may
    have no flow. `more`: which of flows, pipelines, errors, recoveries and people are more than are shown."""

    asked: str
    flows: tuple[Flow, ...] = ()
    pipelines: tuple[Pipeline, ...] = ()
    errors: tuple[Flow, ...] = ()
    recoveries: tuple[FoundRecovery, ...] = ()
    people: tuple[FoundPerson, ...] = ()
    more: frozenset[str] = frozenset()

    @property
    def nothing(self) -> bool:
        """Was nothing found at all?"""
        return not (self.flows or self.pipelines or self.errors or self.recoveries or self.people)

    @property
    def exact(self) -> Recovery | None:
        """The recovery whose label was given, written out; nothing else can have been meant."""
        written = self.asked.upper().startswith("R")
        return next((f.recovery for f in self.recoveries if written and f.by is FoundBy.LABEL), None)


def search(text: str, by: Actor) -> SearchResult:
    """Everything that fits, of what `by` may see. An empty text finds nothing."""
    asked = " ".join(text.split())[:LONGEST]
    if not asked:
        return SearchResult("")
    words = asked.split()[:WORDS]
    more: set[str] = set()
    flows = _cut(_flows(by).filter(_each(words, NAMES)).order_by(FAILED_FIRST, "name", "pk"), "flows", more)
    errors = _cut(
        _flows(by)
        .annotate(said=Cast("error", TextField()))
        .filter(_written("said", asked))
        .exclude(pk__in=[f.pk for f in flows])
        .order_by(FAILED_FIRST, "name", "pk"),
        "errors",
        more,
    )
    found = _recoveries(asked, by)
    if len(found) > MOST:
        more.add("recoveries")
    return SearchResult(
        asked,
        flows=tuple(flows),
        pipelines=tuple(_pipelines(asked, words, by, more)),
        errors=tuple(errors),
        recoveries=tuple(found[:MOST]),
        people=_people(asked, by, more),
        more=frozenset(more),
    )


def _flows(by: Actor) -> QuerySet[Flow]:
    seen = Flow.objects.filter(filter_visible(by, "pipeline__"), pipeline__gone=False)
    return seen.select_related("pipeline__workspace")


def _pipelines(asked: str, words: list[str], by: Actor, more: set[str]) -> list[Pipeline]:
    seen = Pipeline.objects.filter(filter_visible(by), gone=False).select_related("workspace")
    named = seen.defer("spec", "updates").annotate(said=Cast("failure", TextField()))
    fits = named.filter(_each(words, PIPELINE_NAMES) | _written("said", asked))
    return _cut(fits.order_by("name", "pk"), "pipelines", more)


def _each(words: list[str], columns: tuple[str, ...]) -> Q:
    """Every word in one of these columns."""
    return reduce(and_, (reduce(or_, (Q(**{f"{c}__icontains": w}) for c in columns)) for w in words))


def _written(column: str, text: str) -> Q:
    """The text in JSON that is stored as text: as it is, and as JSON escapes it."""
    return Q(**{f"{column}__icontains": text}) | Q(**{f"{column}__icontains": json.dumps(text)[1:-1]})


def _cut(rows: QuerySet[Row], kind: str, more: set[str]) -> list[Row]:
    found = list(rows[: MOST + 1])
    if len(found) > MOST:
        more.add(kind)
    return found[:MOST]


def _recoveries(asked: str, by: Actor) -> list[FoundRecovery]:
    """By label first, then by plan, by person, by what was diagnosed; newest first, each once; one more than `MOST`."""
    seen = Recovery.objects.filter(filter_visible(by, "flow__pipeline__")).select_related(
        "flow__pipeline__workspace"
    )
    found: dict[int, FoundRecovery] = {}
    number = whole(label[1]) if (label := LABEL.fullmatch(asked)) else None
    for one in seen.filter(pk=number) if number is not None else ():
        found[one.pk] = FoundRecovery(one, FoundBy.LABEL)
    lower = asked.lower()
    if HASH.fullmatch(lower):
        plans = Plan.objects.filter(hash__startswith=lower, recovery__in=seen).order_by("-pk")[: MOST + 1]
        for plan in plans.select_related("recovery__flow__pipeline__workspace"):
            found.setdefault(plan.recovery_id, FoundRecovery(plan.recovery, FoundBy.PLAN, plan.hash))
    voted = Vote.objects.filter(voter__icontains=asked).values("plan__recovery")
    person = Q(owner__icontains=asked) | Q(created_by__icontains=asked) | Q(pk__in=voted)
    said = seen.annotate(said=Cast("diagnosis", TextField())).filter(_written("said", asked))
    for rows, why in ((seen.filter(person), FoundBy.PERSON), (said, FoundBy.ERROR)):
        for one in rows.order_by("-pk")[: MOST + 1]:
            found.setdefault(one.pk, FoundRecovery(one, why))
    return list(found.values())[: MOST + 1]


def _people(asked: str, by: Actor, more: set[str]) -> tuple[FoundPerson, ...]:
    """Names of owners, openers, sealers and voters of recoveries that `by` sees; accounts for who manages them."""
    seen = Recovery.objects.filter(filter_visible(by, "flow__pipeline__"))
    names: set[str] = set()
    for rows, column in (
        (seen, "owner"),
        (seen, "created_by"),
        (Plan.objects.filter(recovery__in=seen), "sealed_by"),
        (Vote.objects.filter(plan__recovery__in=seen), "voter"),
    ):
        named = rows.filter(**{f"{column}__icontains": asked}).order_by(column)
        names |= set(named.values_list(column, flat=True).distinct()[: MOST + 1])
    accounts: dict[str, int | None] = {}
    if by.may(Right.MANAGE):
        users = User.objects.filter(username__icontains=asked, person__isnull=False).order_by("username")
        accounts = dict(users.values_list("username", "person__pk")[: MOST + 1])
    found = sorted(names | set(accounts))
    if len(found) > MOST:
        more.add("people")
    return tuple(FoundPerson(name, accounts.get(name)) for name in found[:MOST])
