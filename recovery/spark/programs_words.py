"""Settings by which a request says that its code is a plain program. Pure: both sides of a question know them."""

from typing import Final

ENGINE: Final = "reprise.engine"
PLAIN: Final = "structured-streaming"
ARGUMENTS: Final = "reprise.arguments"
CHECKPOINT: Final = "reprise.checkpoint"
