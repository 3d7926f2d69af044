"""Fits advice to the place.

A workspace that manages checkpoints itself lets no one touch them, and sinks differ in what an empty checkpoint does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Protocol

from recovery.contracts.diagnosis import Advice, Storage
from recovery.contracts.names import ChangeIntent, Strategy
from recovery.diagnosis.advice import asks_meant
from recovery.diagnosis.row import DELETE, EMPTY, RESET_NO, ErrorRow


class WrittenKind(StrEnum):
    """What a flow writes, as far as its progress names it."""

    FILES = "files"
    DELTA = "delta"
    OTHER = "other"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class PlatformSupport:
    """What the workspace and the sink of a flow let one do."""

    storage: Storage = Storage.REACHABLE
    sink: WrittenKind = WrittenKind.UNKNOWN
    #: id of the pipeline in its workspace, for the calls of its API
    pipeline_id: str = ""
    #: the flow's name as the API sends it
    flow: str = ""
    #: a program of someone's own, without a pipeline around it
    program: bool = False


class Advised(Protocol):
    """What is being said of a failure (`judgement.Judgement`)."""

    advice: list[Advice]
    dont: list[str]


EMPTY_OF: Final[Mapping[WrittenKind, str]] = {
    WrittenKind.FILES: "Do not reset to an empty checkpoint: everything would be read again, and this table of files "
    "silently skips new rows while batch numbers start again.",
    WrittenKind.DELTA: "Do not reset to an empty checkpoint: everything would be read again and appended a "
    "second time.",
    WrittenKind.OTHER: "Do not reset to an empty checkpoint: everything would be read again and sent a second time.",
}
MANAGED_EMPTY: Final = (
    "Do not reset the checkpoint without a start position in the code: each source would begin where its reader's own "
    "options say, and rows are read again or left out. A target of AUTO CDC merges what comes twice by its keys; any "
    "other table holds it twice."
)
START_OPTIONS: Final = "Auto Loader: modifiedAfter; Kafka: startingOffsets; Delta: startingVersion"


def fit_advice(judged: Advised, row: ErrorRow | None, where: PlatformSupport) -> None:
    """Change what was judged to what can be done there, and what must not be done there."""
    if where.storage is Storage.MANAGED:
        judged.dont = [_managed_dont(text) for text in judged.dont if text != DELETE]
        if row is not None and row.reset != RESET_NO:
            judged.advice = _managed_advice(where, changed=asks_meant(judged.advice))
        elif row is None:
            judged.advice = judged.advice[:1]  # the rest reads the checkpoint
        else:
            judged.advice = [replace(item, strategy="") for item in judged.advice]  # no plan reaches there
        return
    judged.dont = [EMPTY_OF.get(where.sink, text) if text == EMPTY else text for text in judged.dont]
    if where.program:
        judged.advice = [item for item in judged.advice if item.strategy != Strategy.REBUILD]
    if where.program and where.flow:
        judged.advice = [_do_by_hand(item) for item in judged.advice]


BY_HAND: Final = (
    "Where everything has to be read again: stop the stream, move its table and its checkpoint away together, and "
    "start it. It reads what its sources still have. Never move the checkpoint alone."
)


def _do_by_hand(item: Advice) -> Advice:
    """Nothing empties the table of a program, so no plan can be made of that: its owner does it."""
    return replace(item, strategy="", says=BY_HAND) if item.strategy == Strategy.FULL_REFRESH else item


def _managed_dont(text: str) -> str:
    return MANAGED_EMPTY if text == EMPTY else text


def _managed_advice(where: PlatformSupport, *, changed: bool) -> list[Advice]:
    """Ways on where the checkpoint is the workspace's own. `changed`: code and checkpoint differ by a change of code.

    Source: "Recover a pipeline from streaming checkpoint failure" of the Databricks documentation: stop, start position
    in the code, reset_checkpoint_selection, run.
    """
    call = f'POST /api/2.0/pipelines/{where.pipeline_id}/updates {{"reset_checkpoint_selection": ["{where.flow}"]}}'
    recipe = Advice(
        "Reset this flow's checkpoint and go on from a known position. Stop the pipeline, find the last good position "
        f"in its event log, and write it into the code of every source that the flow reads ({START_OPTIONS}). Then "
        f"call `{call}`, and take the start positions out again once the update has run. A position that is not the "
        "true one loses rows or reads them again." + (" Right if the change was meant." if changed else ""),
        right_if=ChangeIntent.YES if changed else None,
        undoable=False,
    )
    whole = Advice(
        "Full refresh of the table in the workspace, where all input is still there: the table is emptied first.",
        undoable=False,
    )
    if not changed:
        return [recipe, whole]
    back = Advice(
        "Put the old code back in the workspace and run an update: its checkpoint fits that code as it is. Right if "
        "the change was a mistake.",
        right_if=ChangeIntent.NO,
        undoable=True,
    )
    return [recipe, back, whole]
