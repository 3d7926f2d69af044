"""The patch step: which text is in which editor, what differs, what the validation said. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from console.presenters import status, words
from console.presenters.diff import Diff
from console.presenters.stopping import EvidenceRow
from recovery.contracts.names import name_strategy
from recovery.models import Flow, Recovery
from recovery.workflow.lineends import laid_over


def wanted_source(
    recovery: Recovery, now: Mapping[str, str], good: Mapping[str, str], typed: Mapping[str, str] | None
) -> dict[str, str]:
    """The whole source as it would run: what was just typed, else what is saved, else what the strategy begins with."""
    if typed is not None:
        return laid_over(now, typed)
    chosen = recovery.chosen
    if chosen.patch is not None and (chosen.patch or chosen.strategy != "revert"):
        return laid_over(now, chosen.patch)
    if chosen.strategy == "revert" and good:
        return {**now, **good}
    return dict(now)


def changed_files(now: Mapping[str, str], typed: Mapping[str, str]) -> dict[str, str]:
    """Only what differs from the workspace is a patch; a file that is not there cannot be edited."""
    texts = laid_over(now, typed)
    return {path: texts[path] for path in typed if path in now and now[path] != texts[path]}


@dataclass(frozen=True)
class FileEditor:
    number: int
    path: str
    text: str
    lines: int
    kind: str
    main: bool
    edited: bool


def list_editors(texts: Mapping[str, str], now: Mapping[str, str], flow: Flow) -> list[FileEditor]:
    """The file that defines the flow first and open; the rest folded."""
    table = words.last_part(flow.dataset)

    def about(path: str) -> int:
        text = texts[path]
        return -(3 * (flow.short in text) + 2 * (table in text) + (now.get(path) != text))

    ordered = sorted(texts, key=lambda p: (about(p), p))
    return [
        FileEditor(
            number,
            path,
            texts[path],
            len(texts[path].splitlines()),
            "SQL" if path.endswith(".sql") else "Python" if path.endswith(".py") else "Text",
            number == 0,
            now.get(path) != texts[path],
        )
        for number, path in enumerate(ordered)
    ]


@dataclass(frozen=True)
class PatchAdvice:
    kind: str
    title: str
    text: str
    #: which advice this is, for `data-code` of the page
    code: str


def advise_patch(
    recovery: Recovery, now: Mapping[str, str], texts: Mapping[str, str], good_known: bool
) -> PatchAdvice:
    """Whether this strategy needs a change, in one sentence."""
    strategy = recovery.chosen.strategy
    same = dict(now) == dict(texts)
    if strategy == "revert":
        if same and not good_known:
            return PatchAdvice(
                "attention",
                "The old code is not known here.",
                "Edit it back in below: revert runs exactly what is here.",
                "old-code-unknown",
            )
        if same:
            return PatchAdvice(
                "attention",
                "Nothing to put back.",
                "The workspace already holds the code of the last good update.",
                "nothing-to-put-back",
            )
        return PatchAdvice(
            "info",
            "The code of the last good update is filled in.",
            "It is what revert puts back. Edit it only if it must differ.",
            "old-code-filled-in",
        )
    if same:
        return PatchAdvice(
            "ok",
            "No change needed.",
            f"{name_strategy(strategy or 'The strategy')} runs the code as it is deployed. "
            "Change it only if the flow itself is wrong.",
            "no-change-needed",
        )
    return PatchAdvice(
        "info",
        "This recovery changes the code.",
        "It is written to the workspace when the recovery runs, and read back.",
        "changes-the-code",
    )


def check_text(recovery: Recovery, against_now: Sequence[Diff]) -> list[EvidenceRow]:
    """What can be said about the text before Spark sees it."""
    touched = [d for d in against_now if d.changed]
    if not touched:
        return [
            EvidenceRow(
                "ok",
                "The workspace's files stay as they are",
                f"{words.format_count(len(against_now), 'file')} read",
            )
        ]
    return [
        EvidenceRow("info", d.path.rsplit("/", 1)[-1], f"{d.says}; written when the recovery runs")
        for d in touched
    ]


@dataclass(frozen=True)
class Validation:
    badge: status.Badge
    says: str
    at: words.StoredMoment
    detail: str = ""


def validation_result(recovery: Recovery) -> Validation:
    """The last answer of validate_only, or that none was asked for."""
    answer = recovery.chosen.validation
    state, says = answer.status or "none", answer.says or answer.problem or ""
    if state == "working":
        return Validation(
            status.Badge("running", "Being validated", spin=True),
            "Spark is asked whether the graph is valid.",
            answer.started_at,
        )
    if state == "valid":
        return Validation(status.Badge("ok", "Valid"), says, answer.at)
    if state == "invalid":
        first = says.splitlines()[0] if says else "The graph is not valid."
        return Validation(status.Badge("failed", "Not valid"), first, answer.at, says)
    if state == "failed":
        return Validation(status.Badge("unknown", "Could not be validated"), says, answer.at)
    return Validation(
        status.Badge("pending", "Not validated"),
        "Ask Spark before the plan is sealed; sealing validates as well.",
        None,
    )
