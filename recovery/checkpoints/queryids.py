"""Query ids of several checkpoints: one that was copied has the id of the other, and Spark runs one query of an id."""

from collections.abc import Mapping

from recovery.checkpoints import formats
from recovery.checkpoints.findings import finding
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.inspection import list_versions
from recovery.checkpoints.report import Finding
from recovery.checkpoints.storage import Store, TooLarge, reaching

LARGEST = 4096


def read_query_id(flow_location: str) -> str | None:
    """The query id in the newest version of a flow's checkpoint, or of a plain stream's, which has no versions; None
    where there is none that can be read.

    Raises Unreachable when the storage fails.
    """
    with reaching(flow_location):
        numbers = list_versions(flow_location)
        place = Store.open(flow_location)
        try:
            data = (place.child(str(numbers[-1])) if numbers else place).read("metadata", LARGEST)
            return formats.parse_metadata(data)
        except (FileNotFoundError, NotADirectoryError, TooLarge, Malformed):
            return None


def find_shared_ids(ids: Mapping[str, str | None], where: Mapping[str, str] | None = None) -> list[Finding]:
    """A blocker for each query id that several flows have. `ids`: flow -> id, None for not known; `where`: the file
    that the finding is of, by flow."""
    users: dict[str, list[str]] = {}
    for flow, query_id in ids.items():
        if query_id:
            users.setdefault(query_id, []).append(flow)
    return [
        finding("QUERY_ID_SHARED", (where or {}).get(flows[-1]), flows=", ".join(sorted(flows)), id=query_id)
        for query_id, flows in sorted(users.items())
        if len(flows) > 1
    ]
