"""What the runner and people note on a step's row beside its result."""

from recovery.contracts.names import StepKind
from recovery.contracts.probes import EvidenceLine, Probe
from recovery.contracts.results import PartialResult
from recovery.contracts.value import Flag, Value


class UpdateWatch(Value):
    """What looks have seen of the update that a step waits for. Times are in ISO form, UTC."""

    began: str
    """When the step began to wait."""
    state: str = ""
    """The state of the update, as last reported; "": not asked yet."""
    stop_asked: Flag = False
    """Whether the update was asked to stop."""
    silent_since: str = ""
    """When the API stopped answering; "": it answers."""
    ended: str = ""
    """How the update ended; "": it has not."""


class Statement(Value):
    """What a person reports to have seen of a step: by word, not by proof."""

    by: str
    """Who."""
    at: str
    """When, in ISO form, UTC."""
    says: str
    """What they saw."""


class StopWish(Value):
    """A person's wish that the update of a step whose end was not seen is stopped."""

    by: str
    """Who."""
    at: str
    """When, in ISO form, UTC."""


class SkipNote(Value):
    """A person has skipped the step."""

    by: str
    """Who."""
    reason: str = ""
    """Why."""
    at: str = ""
    """When, in ISO form, UTC."""


class StepNotes(PartialResult):
    """Every note of a step."""

    watched: UpdateWatch | None = None
    """The update that it waits for; None: it has never waited."""
    probe: Probe | None = None
    """The newest probe; None: none, or of a release that kept only its evidence."""
    statements: tuple[Statement, ...] = ()
    """What people report to have seen, oldest first."""
    stopping: StopWish | None = None
    """Who asked for the stop of its update, while it is not known what came of it; None: no one."""
    skipped: SkipNote | None = None
    """Who skipped it; None: no one."""


class StepInQuestion(Value):
    """The step at which a run is, and what is known of its end, for programs."""

    step: StepKind
    """Its kind."""
    state: str
    """Its state."""
    evidence: tuple[EvidenceLine, ...]
    """What its own probe read."""
    probe: Probe | None
    """The newest probe; None as in `StepNotes`."""
    statements: tuple[Statement, ...]
    """What people report to have seen, oldest first."""
