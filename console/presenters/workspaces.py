"""Rows of Settings > Workspaces."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.utils import timezone

from console.presenters import versions
from console.presenters.status import Badge
from recovery.models import Workspace
from recovery.pipelines.actions import TEST_PATIENCE
from recovery.pipelines.workspace_answers import AnswerResult, WorkspaceTest
from recovery.pipelines.workspace_words import Line, lines

TONES: Final = {
    AnswerResult.HOLDS: "ok",
    AnswerResult.PART: "attention",
    AnswerResult.FAILS: "failed",
    AnswerResult.UNKNOWN: "unknown",
    AnswerResult.NOT_ASKED: "pending",
}
"""Colour and shape of each result."""


@dataclass(frozen=True)
class AnswerRow:
    """One question of a test, with its badge."""

    line: Line
    badge: Badge


@dataclass(frozen=True)
class WorkspaceRow:
    """A workspace, its last test (None: never), whether one is under way, whether one that was asked for got lost."""

    workspace: Workspace
    test: WorkspaceTest | None
    told: tuple[AnswerRow, ...]
    testing: bool
    lost: bool

    @property
    def badge(self) -> Badge:
        """Of the last test as a whole."""
        if self.testing:
            return Badge("running", "Being tested", spin=True)
        if self.test is None:
            return Badge("pending", "Not tested yet")
        every = self.test.held == len(self.test.answers)
        kind = "ok" if every else "attention" if self.test.reached else "failed"
        return Badge(kind, f"{self.test.held} of {len(self.test.answers)} hold")


def workspace_row(workspace: Workspace) -> WorkspaceRow:
    """One row of the list."""
    test = WorkspaceTest.from_dict(workspace.tested)
    asked = workspace.test_asked_at
    late = asked is not None and timezone.now() - asked > TEST_PATIENCE
    answers = (
        tuple(AnswerRow(line, Badge(TONES[line.result], line.holds)) for line in lines(test)) if test else ()
    )
    return WorkspaceRow(workspace, test, answers, asked is not None and not late, late)


def list_version(rows: Sequence[WorkspaceRow]) -> str:
    """Changes when anything that the list shows has changed."""
    shown = [
        (
            r.workspace.name,
            r.workspace.on,
            r.test.at if r.test else "",
            r.testing,
            r.lost,
            r.workspace.poll_error,
        )
        for r in rows
    ]
    return versions.list_digest(shown)
