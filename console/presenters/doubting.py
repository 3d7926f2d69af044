"""How a flow is shown that is ok or runs, with what contradicts it: `OK, not proven`. Pure."""

from console.presenters import status
from recovery.models import Flow
from recovery.workflow.doubting import Doubt


def doubt_badge(doubt: Doubt) -> status.Badge:
    """`OK, not proven`."""
    return status.Badge("attention", f"{status.state_badge(status.FLOW, doubt.state).word}, {doubt.word}")


def flow_badge(flow: Flow, doubt: Doubt | None) -> status.Badge:
    """The state of a flow, with what contradicts it."""
    return status.state_badge(status.FLOW, flow.state) if doubt is None else doubt_badge(doubt)
