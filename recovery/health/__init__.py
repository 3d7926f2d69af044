"""Whether this instance is well: signs of life, what readiness means, and the numbers that a monitor reads."""

from typing import Final

EVERY_SECONDS: Final = 5.0
"""How often a worker and beat say that they live."""
DEAD_SECONDS: Final = 60.0
"""Silent for so long, a process counts as dead: twelve signs missed, or a database away for a minute."""
SENT_AT: Final = "sent_at"
"""Header of every message: when it was sent, in seconds since 1970."""
