"""A running step's sign of life, its log, and the fence that stops a worker whose step was taken away."""

import logging
import threading
from types import TracebackType
from typing import Any

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections, transaction
from django.utils import timezone

from recovery.contracts.results import PartialResult
from recovery.errors import RepriseError
from recovery.models import Step

log = logging.getLogger(__name__)


class FenceLost(RepriseError):
    """This worker no longer owns its step: it must not change anything any more."""

    code = "fence_lost"


class Watch:
    """Beats in a thread while the step's own code runs; use as a context manager."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.acted = False
        """Has `guard` been passed, so that an effect may have followed?"""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"beat-{step.pk}", daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.wait(settings.REPRISE_HEARTBEAT_SECONDS):
                self._beat()
        finally:
            connections.close_all()

    def _beat(self) -> None:
        """A database that is away is asked again with the next beat, over a new connection.

        Away for longer than the silence limit, and the reaper calls the step unknown: `guard` then stops it.
        """
        try:
            self._mine().update(heartbeat_at=timezone.now())
        except (DatabaseError, InterfaceError) as problem:
            log.warning("step %s could not give a sign of life: %s", self.step.pk, problem)
            connections.close_all()

    def _mine(self) -> Any:
        return Step.objects.filter(pk=self.step.pk, fence=self.step.fence, state="running")

    def guard(self) -> None:
        """Raise FenceLost unless the step is still this worker's, within its deadline. Call before each effect."""
        row = self._mine().first()
        if row is None:
            raise FenceLost(f"Step {self.step.kind} was taken over by another worker; this one stops here.")
        if row.deadline and timezone.now() > row.deadline:
            raise FenceLost(f"Step {self.step.kind} ran past its deadline; it stops before its next effect.")
        self.acted = True

    def log(self, text: str) -> None:
        """Append one line to the step's log."""
        with transaction.atomic():
            row = self._mine().first()
            if row is not None:
                self._mine().update(log=[*row.log, [timezone.now().isoformat(), text]])

    def keep(self, piece: PartialResult) -> None:
        """Write what is set of it into the step's row at once, so that a probe can find it after a crash."""
        with transaction.atomic():
            row = self._mine().first()
            if row is None:
                raise FenceLost(
                    f"Step {self.step.kind} was taken over by another worker; this one stops here."
                )
            written = piece.lay_over(row.result)
            self._mine().update(result=written)
        self.step.result = written
