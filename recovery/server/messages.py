"""What Spark's pipeline run tells its client: sentences, which are parsed here into states.

Spark 4.2 sends a time and a sentence for each event and nothing else (`PipelineEvent` of Spark Connect);
the sentences are made by `FlowProgressEventLogger` and `RunTerminationReason`.
"""

import re
from dataclasses import dataclass

FLOW = re.compile(
    r"Flow '?(?P<flow>[^']+?)'? (?:is|has) "
    r"(?P<status>QUEUED|PLANNING|STARTING|RUNNING|COMPLETED|FAILED|SKIPPED|STOPPED|EXCLUDED|IDLE)\b"
)
RESOLUTION = re.compile(r"Failed to resolve flow(?P<upstream> due to upstream failure)?: '(?P<flow>[^']+)'")
RUN = re.compile(r"Run is (?P<state>COMPLETED|FAILED|CANCELED)\b")


@dataclass(frozen=True)
class FlowReport:
    """A flow changed its status. `unresolved`: it cannot be analysed; `upstream`: only because one before it cannot."""

    flow: str
    status: str
    unresolved: bool = False
    upstream: bool = False


@dataclass(frozen=True)
class RunReport:
    """The run ended: COMPLETED, FAILED or CANCELED."""

    state: str


def parse_message(text: str) -> FlowReport | RunReport | None:
    """The meaning of a sentence, or None when it says nothing about a flow or the run."""
    if match := RUN.match(text):
        return RunReport(match["state"])
    if match := RESOLUTION.match(text):
        return FlowReport(
            unquote_name(match["flow"]), "FAILED", unresolved=True, upstream=bool(match["upstream"])
        )
    if (match := FLOW.match(text)) and match["status"] != "PLANNING":  # the API has no such status
        return FlowReport(unquote_name(match["flow"]), match["status"])
    return None


def unquote_name(name: str) -> str:
    """A name without the backticks that Spark puts around its parts."""
    return name.replace("`", "")
