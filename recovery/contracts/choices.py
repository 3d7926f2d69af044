"""What people have chosen for a recovery, what one of them changes of it, and what workers answered to it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict

from recovery.contracts.acceptance import Accepted, Cost, Effect
from recovery.contracts.names import ChangeIntent, Strategy, read_strategy
from recovery.contracts.plan import PatchAuthor
from recovery.contracts.positions import ShownSource
from recovery.contracts.start_choice import StartChoice
from recovery.contracts.target import ReplayTarget
from recovery.contracts.value import Flag, Number, Value


class WorkerAnswer(Value):
    """What a worker was asked on a person's behalf, and how far it is."""

    status: str = ""
    """working, ready, valid, invalid or failed; "": nothing was asked."""
    ticket: str = ""
    """Name of the newest request. An answer to another one is thrown away."""
    started_at: str | None = None
    """When it was asked, in ISO form."""
    at: str | None = None
    """When the answer came, in ISO form."""
    repeats: Number = 0
    """How often it was asked again because its worker had gone silent."""
    problem: str | None = None
    """Why there is no answer, for people."""
    says: str | None = None
    """The answer, for people."""
    code: str | None = None
    """The code of a refusal."""
    costs: tuple[Cost, ...] = ()
    """What has to be accepted before the answer can be another one."""


class WorkProgress(WorkerAnswer):
    """How far a worker is: what its answer holds beside is left out, so that pages may ask every second."""

    model_config = ConfigDict(extra="ignore")


class PositionsAnswer(WorkerAnswer):
    """The newest look at start positions. What it found of each source is a row of its own."""

    asked: Mapping[str, StartChoice] = {}
    """The positions that were asked about, by source."""
    wishes: Mapping[str, StartChoice] | None = None
    """Those of the newest look that came to its end; None: none has."""


class LookedPositions(PositionsAnswer):
    """A look at start positions that has come to its end."""

    sources: tuple[ShownSource, ...]
    """What it shows of each source."""


class ValidationAnswer(WorkerAnswer):
    """What the Pipelines API said of the edited source."""

    update_id: str | None = None
    """The update that validated it; "": it was no update."""


class Requester(Value):
    """Who asked for a plan: it is sealed in this person's name."""

    name: str
    """The person's name."""
    role: str
    """The role in the recovery's environment."""
    user_id: Number | None
    """None: someone who is no user of this console."""
    request_id: str
    """The request that asked."""


class SealingAnswer(WorkerAnswer):
    """The newest try to seal a plan."""

    by: Requester | None = None
    """Who asked for it."""
    basis: str = ""
    """Digest of the choices that it was asked of: other ones are not sealed in this name."""
    accept: tuple[Effect, ...] | None = None
    """Effects that the request accepts, of any number of rows; None: what was accepted on Review."""
    plan: str | None = None
    """Hash of the plan that was sealed."""


class Halt(Value):
    """A person's wish that the run ends. The step that runs obeys it."""

    by: str = ""
    """Who asked; "": no one."""
    at: str | None = None
    """When, in ISO form."""
    when: Literal["now", "step"] = "now"
    """now: its update is stopped; step: the step that runs ends first."""


class Choices(Value):
    """What was chosen for a recovery so far, as it is stored with it. A key that is not set was not chosen yet."""

    meant: ChangeIntent | None = None
    """Whether the change that made code and checkpoint differ was meant; None: no one was asked."""
    meant_by: str = ""
    """Who said so; "": older releases did not keep it."""
    strategy: Strategy | None = None
    """How the flow goes on."""
    key: tuple[str, ...] = ()
    """Columns that identify a row; (): those that the code names, or all of them."""
    patch: Mapping[str, str] | None = None
    """New text of edited files by path; empty: the code is kept as it is; None: not decided."""
    editors: Mapping[str, tuple[PatchAuthor, ...]] = {}
    """Who edited each file of the patch: none of them votes on a plan that holds it."""
    original: Mapping[str, str] = {}
    """What the edited files held before; older releases kept it."""
    positions: Mapping[str, StartChoice] = {}
    """Where sources start, by their number in the code; one that is missing starts where it was committed."""
    target: ReplayTarget | None = None
    """Where a replay goes back to; None: not chosen."""
    positions_look: PositionsAnswer = PositionsAnswer()
    """What other positions would cost."""
    confirmed: tuple[str, ...] = ()
    """Which source of the checkpoint continues as which of the code, `old->new`, as a person has confirmed."""
    below: Literal["left"] | None = None
    """left: the plan leaves what is downstream as it is."""
    validation: ValidationAnswer = ValidationAnswer()
    """Whether the edited source is valid."""
    sealing: SealingAnswer = SealingAnswer()
    """How far the sealing of a plan is."""
    accepted: Accepted = Accepted()
    """What people have accepted of the plan that is sealed next."""
    halt: Halt = Halt()
    """Whether the run shall end."""

    @property
    def refresh_below(self) -> bool:
        """Whether the plan refreshes what is downstream."""
        return self.below is None

    def replace(self, **values: Any) -> Self:
        """These choices with other values. They are taken as they are: give values of the right type."""
        return self.model_copy(update=values)

    def forget(self, *names: str) -> Self:
        """These choices as if the named ones had never been made."""
        kept = {name: getattr(self, name) for name in self.model_fields_set - set(names)}
        return self.model_construct(set(kept), **kept)


class ChoicesChange(Value):
    """What one act of a person or a program changes of a recovery's choices. None: that choice stays as it is."""

    meant: ChangeIntent | None = None
    """Whether the change of the code was meant."""
    strategy: Annotated[str, AfterValidator(read_strategy)] | None = None
    """How the flow goes on, by either name of a strategy; what is no strategy is refused with those that are."""
    default_strategy: Flag = False
    """Choose the default strategy where none is named or chosen: for commands and programs, which plan in one act."""
    key: tuple[str, ...] | None = None
    """Columns that identify a row."""
    patch: Mapping[str, str] | None = None
    """New text of the files that are edited, by path; empty: the code is kept as it is."""
    editors: Mapping[str, tuple[PatchAuthor, ...]] = {}
    """Who edited these files, where that was in another recovery; whoever else changes a file has edited it."""
    confirmed: tuple[str, ...] | None = None
    """Which source continues as which, `old->new`; all others are not confirmed."""
    refresh_below: Flag | None = None
    """Whether the plan refreshes what is downstream."""
    positions: Mapping[str, StartChoice | None] | None = None
    """Where sources start, by their number in the code; None, or a source that is missing: where it was committed."""
    target: ReplayTarget | None = None
    """Where a replay goes back to."""
    accept: frozenset[Effect] = frozenset()
    """What of the costs of these positions is accepted: rows left out, rows read again. What a plan costs is accepted
    when it is sealed."""
