"""What questions about a flow's rows may cost, by the settings; for single flows by settings of their own."""

from collections.abc import Iterable

from django.conf import settings

from recovery.checkpoints.report import Finding, Severity
from recovery.spark.api import BudgetBound, Budgets, Limit
from recovery.verification.words import bound_finding


def compare_bytes(flow: str) -> int:
    """Bytes of input and table together up to which the whole flow is compared (`REPRISE_COMPARE_BYTES`)."""
    return int(settings.REPRISE_COMPARE_BYTES_OF.get(flow, settings.REPRISE_COMPARE_BYTES))


def budgets(flow: str) -> Budgets:
    """What a question about the table of this flow may cost."""
    seconds = settings.REPRISE_LOOKUP_SECONDS
    most = int(settings.REPRISE_LOOKUP_BYTES_OF.get(flow, settings.REPRISE_LOOKUP_BYTES))
    return Budgets(
        lookup=Limit(most, seconds),
        grouping=Limit(min(most, settings.REPRISE_GROUPING_BYTES), seconds),
        versions=Limit(compare_bytes(flow)),
    )


def not_counted(bounded: Iterable[BudgetBound]) -> tuple[Finding, ...]:
    """What a plan says of the budgets that its questions met."""
    do = "Raise the limit for this flow where that matters: the proof asks again."
    return tuple(Finding("NOT_COUNTED", Severity.INFO, bound_finding(one).says, do) for one in bounded)
