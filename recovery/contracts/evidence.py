"""The evidence pack of a recovery: what its files hold, and what is answered when it was made. The names in the files
are read years later, and by programs of other people (`recovery.audit.offline`)."""

from collections.abc import Mapping

from pydantic import SerializerFunctionWrapHandler, model_serializer

from recovery.contracts.criteria import Criterion
from recovery.contracts.value import Flag, Moment, Number, Value


class PackedRecovery(Value):
    """The recovery, as `recovery.json` holds it."""

    recovery: str
    """Its label."""
    state: str
    """Its state when the pack was made."""
    strategy: str
    """The strategy that was chosen; "": none was."""
    workspace: str
    """The name of the workspace."""
    environment: str
    """The pipeline's environment."""
    pipeline: str
    """The pipeline's name."""
    flow: str
    """The flow's full name."""
    opened_by: str
    """Who opened it."""
    owner: str
    """Who answers for it; "": no one."""
    opened_at: Moment
    """When it was opened."""
    ended_at: Moment | None
    """When it ended; None: it is open."""
    reason: str
    """Why it is as it is, for people, without secrets."""
    made_at: Moment
    """When the pack was made."""


class PackedPlan(Value):
    """One sealed plan, as `plan.json` holds it."""

    hash: str
    """Its seal."""
    sealed_by: str
    """Who sealed it."""
    sealed_at: Moment
    """When."""
    voided_at: Moment | None
    """When it was voided; None: it holds."""
    drift: object
    """What had changed then, as JSON."""
    body: Mapping[str, object]
    """Its contents, byte for byte as they were sealed: no reader of today's is between."""
    joint_hash: str = ""
    """The seal of the joint plan that it is part of, which votes on it have signed. Not written where it runs alone."""
    joint: Mapping[str, object] = {}
    """The contents of that, byte for byte. Not written where it runs alone."""

    @model_serializer(mode="wrap")
    def _write(self, handler: SerializerFunctionWrapHandler) -> dict[str, object]:
        stored: dict[str, object] = handler(self)
        if not self.joint_hash:
            del stored["joint_hash"], stored["joint"]
        return stored


class PackedVerification(Value):
    """What was measured, as `verification.json` holds it."""

    measured: Mapping[str, object]
    """As it is stored; {}: nothing was measured."""
    criteria: tuple[Criterion, ...]
    """Those of the newest plan."""


class ChainProof(Value):
    """The links from the recovery's first entry to the first good anchor behind its last one, as `proof.json` holds
    them."""

    first: Number
    """The number of the first entry; 0: there is none."""
    last: Number
    """The number of the entry that the anchor names, else of the recovery's last one."""
    prev_hash: str
    """The hash before the first entry."""
    links: tuple[tuple[Number, Number, str], ...]
    """Of each entry its number, its format, and its contents or their hash, as the format says."""
    anchor: Mapping[str, object] | None
    """The signed anchor (`audit.anchoring.SignedStatement`); None: nothing signs these entries yet."""
    public_key: str
    """The key of that signature, as hex; "": there is none."""


class PackMade(Value):
    """The answer of `audit pack`."""

    recovery: str
    """Its label."""
    entries: Number
    """How many audit entries it holds."""
    signed: Flag
    """Whether its manifest is signed."""
    files: tuple[str, ...]
    """The names of its files."""
