"""An error text of a stream that is no flow here, alone or with its checkpoint. Neither is stored or audited."""

from typing import Final

from django.http import HttpResponse

from console.middleware import PageRequest
from console.pages.base import page, render_page
from console.presenters import checkpoint as checkpoints
from console.presenters import error_text, wizard
from recovery import reach
from recovery.diagnosis.of_text import NO_CHECKPOINT, diagnose_text, read_checkpoint
from recovery.errors import WrongUse
from recovery.people.roles import Actor, Right

LARGEST_TEXT: Final = 2_000_000  # bytes
LONGEST_PATH: Final = 2_000


@page(Right.VIEW, methods=("GET", "POST"))
def diagnose_pasted_text(request: PageRequest, by: Actor) -> HttpResponse:
    """The box; POST answers with the diagnosis of what was put into it, on the same page."""
    context = {"section": "flows", "largest": LARGEST_TEXT}
    if request.method != "POST":
        return render_page(request, "error_text.html", context)
    text, place = request.POST.get("text", ""), request.POST.get("checkpoint", "").strip()
    context |= {"text": text, "checkpoint": place}
    try:
        _check_size(text, place)
    except WrongUse as refusal:
        return render_page(request, "error_text.html", {**context, "text": ""}, refusal=refusal, status=422)
    report, problem = read_checkpoint(place, reach.reading_typed(place, by)) if place else (None, None)
    unread = "" if problem else NO_CHECKPOINT  # why it was not read is said above the diagnosis
    diagnosed = diagnose_text(text, report=report, unread=unread)
    diagnosis = diagnosed.found
    context |= {
        "told": diagnosed,
        "found": diagnosis,
        "asks": error_text.answer_asks(diagnosis, is_recognised=diagnosed.is_recognised),
        "ladder": wizard.advice_ladder(diagnosis, None),
        "order": error_text.explain_order(diagnosis),
        "operators": wizard.operator_rows(diagnosis),
        "report": report,
        "problem": problem,
        "findings": checkpoints.finding_rows([f.as_dict() for f in report.findings]) if report else [],
    }
    return render_page(request, "error_text.html", context)


def _check_size(text: str, place: str) -> None:
    """Raises WrongUse."""
    if not text.strip():
        raise WrongUse(
            "There is no text: paste the end of the driver's log, or the exception.", code="no_text"
        )
    if len(text.encode("utf-8", "replace")) > LARGEST_TEXT:
        raise WrongUse(
            "The text is larger than 2 MB, so it was not read. Paste the end of the log: its last failure is what "
            "counts. The command line takes a log of any size: bin/manage diagnose --error FILE.",
            code="text_too_large",
        )
    if len(place) > LONGEST_PATH:
        raise WrongUse("The checkpoint's path is longer than 2,000 characters.", code="path_too_long")
