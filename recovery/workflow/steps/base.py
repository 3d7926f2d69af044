"""What a step gets and what it gives back."""

from dataclasses import dataclass
from typing import Literal, Protocol

from recovery.contracts.plan import PlanBody
from recovery.contracts.probes import EvidenceLine
from recovery.contracts.results import StepResult
from recovery.errors import RepriseError
from recovery.models import Flow, Plan, Recovery, Step
from recovery.pipelines.client import PipelinesClient
from recovery.pipelines.workspaces import client_for
from recovery.plans.values import Drift
from recovery.workflow.beat import Watch
from recovery.workflow.moves import held_by


class PlanVoid(RepriseError):
    """Something moved since the plan was sealed; it is void, for good."""

    code = "plan_void"

    def __init__(self, drift: list[Drift]) -> None:
        super().__init__(
            "The plan is void: " + " ".join(d.says for d in drift) + " Nothing was changed. Seal a new plan."
        )
        self.drift = drift


@dataclass
class Context:
    """One attempt of one step. `timeout`: seconds that an answer of the Pipelines API may take."""

    step: Step
    watch: Watch
    timeout: float = 30.0

    @property
    def recovery(self) -> Recovery:
        return self.step.recovery

    @property
    def flow(self) -> Flow:
        return self.recovery.flow

    @property
    def plan(self) -> Plan:
        assert self.step.plan is not None, "only the early stop has no plan"
        return self.step.plan

    @property
    def contents(self) -> PlanBody:
        """What the plan fixes."""
        return self.plan.contents

    @property
    def client(self) -> PipelinesClient:
        return client_for(self.flow.pipeline.workspace, timeout=self.timeout)

    @property
    def pipeline_id(self) -> str:
        return self.flow.pipeline.pipeline_id

    @property
    def run_noun(self) -> str:
        """As `Workspace.run_noun`."""
        return self.flow.pipeline.workspace.run_noun

    @property
    def held_by(self) -> str:
        """Who asked meanwhile for the run to be stopped; empty when no one did."""
        return held_by(self.recovery.pk)

    def log(self, text: str) -> None:
        self.watch.log(text)


@dataclass(frozen=True)
class StepWait:
    """In place of a result: what the step waits for has begun, and no worker is needed until it has ended.

    A kind that waits is a `WaitingStepModule`.
    """


@dataclass(frozen=True)
class ProbeOutcome:
    """What a probe proved.

    outcome: "done"; "again" (not done, and doing it again only reads or watches: goes on by itself);
    "repeat" (not done, which is proven, and beginning again does no harm: goes on by itself, `cut` where an update was
    cut off);
    "not_done" (a person decides whether it is done again); "unclear" (a person decides, with less).
    """

    outcome: Literal["done", "again", "repeat", "not_done", "unclear"]
    evidence: list[EvidenceLine]
    result: StepResult | None = None
    cut: bool = False


class StepModule(Protocol):
    """What a module of one kind of step has."""

    @property
    def SECONDS(self) -> int:
        """How long one attempt may take."""

    def run(self, context: Context) -> StepResult | StepWait:
        """One attempt."""

    def probe(self, step: Step) -> ProbeOutcome:
        """What a step of this kind did whose end was not seen. Reads only."""


class WaitingStepModule(StepModule, Protocol):
    """What a kind has besides that may wait for an update."""

    def find_end(self, context: Context) -> str | None:
        """How what it waits for has ended; None while it goes on. Short, and safe to repeat."""

    def go_on(self, context: Context, ended: str) -> StepResult:
        """Read back."""


def saw(proven: bool | None, says: str) -> EvidenceLine:
    """One line of evidence. None: could not be read."""
    return EvidenceLine(proven=proven, says=says)
