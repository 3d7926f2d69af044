"""A responder under chaos: plans, runs, and resumes on the evidence, until the recovery is proven or time is up.

Acts only through the command line, as a person would; reads the instance's own database to see where things stand.
"""

import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import Error as DatabaseError
from django.db import connections

from console.incident.making import Incident
from tests import tables
from tests.stack import Stack

PATIENCE = 1500.0  # seconds for one recovery, strikes and all
HANGS = 300.0  # seconds after which a command hangs
LOOK = 0.5
COMES = 60.0  # seconds that a recovery stands before somebody comes: what goes on until then needed nobody


@dataclass
class Outcome:
    """How one recovery ended, counted on its table when it had ended."""

    name: str
    state: str = ""
    seconds: float = 0.0
    lost: int = 0
    doubled: int = 0
    double_resets: int = 0
    plans: int = 0
    resumed: int = 0
    unknown: int = 0
    repeated: int = 0
    hung: int = 0
    ran: bool = False
    said: list[str] = field(default_factory=list)

    @property
    def bad(self) -> bool:
        return self.state != "succeeded" or bool(self.lost or self.doubled or self.double_resets or self.hung)


@dataclass
class Responder:
    stack: Stack
    incident: Incident
    log: Callable[[str], None]
    runs: Callable[[], None] = lambda: None  # called once, when the plan's steps are seen to run
    stands: float | None = None  # since when it needs attention

    def recover(self) -> Outcome:
        """Go on until the recovery has succeeded. What a command said last is kept for the report."""
        outcome, began = Outcome(self.incident.name), time.monotonic()
        while time.monotonic() - began < PATIENCE:
            standing = self._look()
            outcome.state = standing.get("state", outcome.state)
            if outcome.state in ("running", "verifying") and not outcome.ran:
                outcome.ran = True
                self.runs()
            if outcome.state in ("succeeded", "failed", "rolled_back", "expired"):
                break
            self._next(standing, outcome)
            time.sleep(LOOK)
        outcome.seconds = round(time.monotonic() - began, 1)
        return outcome

    def _next(self, standing: dict[str, Any], outcome: Outcome) -> None:
        state, label = standing.get("state"), standing.get("recovery", "")
        if state != "needs_attention":
            self.stands = None
        elif self.stands is None:
            self.stands = time.monotonic()
        if state in (None, "diagnosing", "cancelled"):  # a plan that was refused takes its recovery with it
            if self._act(outcome, "plan", self.incident.name, "--flow", self.incident.flow):
                outcome.plans += 1
        elif state == "planned":
            self._act(outcome, "execute", label)
        elif state == "needs_attention" and not standing["waiting"] and self._waited():
            self.stands = None
            if self._act(outcome, "execute", label):
                outcome.resumed += 1

    def _waited(self) -> bool:
        return self.stands is not None and time.monotonic() - self.stands > COMES

    def _act(self, outcome: Outcome, *command: str) -> bool:
        try:
            code, out, err = self.stack.manage(*command, "--json", token="responder", seconds=HANGS)
        except subprocess.TimeoutExpired:
            outcome.hung += 1
            code, out, err = 124, "", f"did not end within {HANGS:.0f} s"
        if code:
            said = (out or err).strip().splitlines()
            outcome.said.append(f"{command[0]}: exit {code}: {said[-1][:300] if said else ''}")
        return code == 0

    def _look(self) -> dict[str, Any]:
        """{} when there is no recovery yet, and {"state": "?"} while the database cannot be read."""
        from recovery.models import Recovery

        try:
            of = Recovery.objects.filter(flow__name=self.incident.flow).order_by("-pk").first()
            if of is None:
                return {}
            steps = list(of.steps.all())
            waiting = any(s.state == "unknown" and not s.evidence for s in steps)
            return {"state": of.state, "recovery": of.label, "waiting": waiting}
        except (DatabaseError, OSError):
            connections.close_all()
            return {"state": "?"}


def count(stack: Stack, incident: Incident, outcome: Outcome) -> None:
    """Rows lost and doubled on the table itself, and resets that were done twice, on the disk."""
    table = stack.home / "warehouse" / f"{incident.table.split('.')[1]}.db" / incident.table.split(".")[2]
    held = Counter(tables.key(r) for r in tables.rows(table))
    wanted = Counter(tables.key(r) for r in incident.arrivals.expected())
    outcome.lost = sum((wanted - held).values())
    outcome.doubled = sum((held - wanted).values())
    outcome.double_resets = max(0, len(_versions(stack, incident)) - 1 - _seeds(incident))
    outcome.unknown = _recorded(incident, "step.unknown")
    outcome.repeated = _recorded(incident, "step.repeat")


def _versions(stack: Stack, incident: Incident) -> list[Path]:
    root = stack.home / "storage" / incident.pipeline_id / "_checkpoints"
    flow = root / incident.table.replace(".", "/") / incident.flow.rsplit(".", 1)[1]
    return [p for p in flow.iterdir() if p.name.isdigit()]


def _seeds(incident: Incident) -> int:
    """Plans whose reset was carried out: each may have made one version."""
    from recovery.models import Step

    return Step.objects.filter(recovery__flow__name=incident.flow, kind="seed", state="done").count()


def _recorded(incident: Incident, action: str) -> int:
    """How often the audit log says this of the incident's recoveries."""
    from recovery.models import AuditEntry, Recovery

    labels = [r.label for r in Recovery.objects.filter(flow__name=incident.flow)]
    return AuditEntry.objects.filter(action=action, recovery__in=labels).count()


def chain_breaks(stack: Stack) -> tuple[int, str]:
    """(0, what was said) when the audit log's chain is whole."""
    code, out, err = stack.manage("audit", "verify", "--json", token="auditor")
    try:
        answer = json.loads(out)
    except ValueError:
        answer = {}
    return (0 if code == 0 else 1), json.dumps(answer) if answer else err.strip()
