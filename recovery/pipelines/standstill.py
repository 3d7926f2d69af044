"""By what it is known that nothing of a pipeline or stream runs. Pure."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class StandstillProof(StrEnum):
    """RUNNING_COMMAND_ALONE: the running command reports no run, and the event log has no end."""

    NO_ACTIVE_UPDATE = "no_active_update"
    RUNNING_COMMAND = "running_command"
    RUNNING_COMMAND_ALONE = "running_command_alone"
    LOG_ENDED = "log_ended"
    NO_SIGN_OF_LIFE = "no_sign_of_life"


WORDS: Final[Mapping[StandstillProof, str]] = {
    StandstillProof.NO_ACTIVE_UPDATE: "no update is active",
    StandstillProof.RUNNING_COMMAND: "the running command reports that it does not run",
    StandstillProof.RUNNING_COMMAND_ALONE: "the running command reports that it does not run, and its event log, which "
    "has no end, has stopped growing",
    StandstillProof.LOG_ENDED: "its event log shows that its last run has ended",
    StandstillProof.NO_SIGN_OF_LIFE: "its event log has no end, and no sign of life for ten minutes",
}
"""Each as part of a sentence."""
