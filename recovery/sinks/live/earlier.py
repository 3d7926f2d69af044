"""Reads what a table held after an earlier batch, from its own log."""

from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import unquote

from recovery.checkpoints import deltalog
from recovery.checkpoints.earlierlog import NOT_KEPT, plan_earlier_log
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.storage import Store, reaching
from recovery.checkpoints.uris import decode_uri
from recovery.errors import Refused, Unreachable
from recovery.sinks.earlier import EarlierTable

OTHER_WRITERS: Final = "other_writers"
"""Code of a refusal: someone else has changed rows since, and that would be undone too."""
NOT_FOUND: Final = "target_not_found"
"""Code of a refusal: no such version, or none that holds a batch of this query."""


def of_files(location: str, batch: int) -> EarlierTable:
    """A file table after `batch`, by the log of the file sink. Raises as `plan_earlier_log`."""
    plan = plan_earlier_log(location, batch)
    return EarlierTable(
        kind="files",
        batch=batch,
        removed_batches=plan.head - batch,
        removed_files=len(plan.removed),
        kept_files=tuple(decode_uri(path) for path in plan.kept),
    )


def of_delta(location: str, query_id: str, batch: int) -> EarlierTable:
    """A Delta table right before the commit of the batch after `batch`: what rewrote files until then stays rewritten.

    Raises Refused (`batch_not_kept`, `other_writers`), Unreachable.
    """
    with reaching(location):
        log = _open_log(location)
        try:
            first, batches, strange = _commits_after(log, query_id, batch)
            if strange is not None:
                raise Refused(
                    f"Version {strange} of the table was written by something else than this flow, after batch "
                    f"{batch}. Putting the table back would undo that too.",
                    code=OTHER_WRITERS,
                )
            then = deltalog.table_state(log, first - 1, files=True).files
            now = deltalog.table_state(log, log.latest, files=True).files
        except (Malformed, deltalog.DeltaLogGone) as problem:
            raise Refused(
                f"The table's log no longer shows what it held after batch {batch}.", code=NOT_KEPT
            ) from problem
        _require_there(log.store.parent(), then, batch)
    removed = [key for key in now if key not in then]
    return EarlierTable(
        kind="delta",
        batch=batch,
        removed_batches=batches,
        removed_files=len(removed),
        version=first - 1,
        now_version=log.latest,
        kept_rows=_sum_rows(then.values()),
        rows=_sum_rows(now.values()),
    )


def batch_at(location: str, query_id: str, version: int) -> int:
    """The newest batch of a query that a Delta table holds at `version`. Raises Refused (`target_not_found`)."""
    with reaching(location):
        log = _open_log(location)
        if not log.earliest <= version <= log.latest:
            raise Refused(
                f"The table has no version {version}: its log holds {log.earliest} to {log.latest}.",
                code=NOT_FOUND,
            )
        try:
            for number in range(version, log.earliest - 1, -1):
                batch = _txn_version(deltalog.read_actions(log, number), query_id)
                if batch is not None:
                    return batch
        except (Malformed, deltalog.DeltaLogGone) as problem:
            raise Refused(
                f"The table's log cannot be read at version {version}.", code=NOT_FOUND
            ) from problem
    raise Refused(f"Version {version} of the table holds no batch of this query in its log.", code=NOT_FOUND)


def put_back_to(location: str, *, version: int, after: int) -> int | None:
    """The version that a RESTORE to `version` has made after version `after`; None: there is none.

    Raises Refused (`stale`) where anything else was committed after `after`, Unreachable.
    """
    with reaching(location):
        log = _open_log(location)
        if log.latest == after:
            return None
        try:
            actions = deltalog.read_actions(log, after + 1)
        except (Malformed, deltalog.DeltaLogGone) as problem:
            raise Unreachable(f"The log of {location} cannot be read after version {after}.") from problem
    info: deltalog.Action = next((a["commitInfo"] for a in actions if a.get("commitInfo")), {})
    asked = info.get("operationParameters") or {}
    restored = info.get("operation") == "RESTORE" and str(asked.get("version")) == str(version)
    if restored and log.latest == after + 1:
        return after + 1
    raise Refused(
        f"The table is at version {log.latest}; the plan was made on version {after}. Something else was written.",
        code="stale",
    )


def _commits_after(log: deltalog.DeltaLog, query_id: str, batch: int) -> tuple[int, int, int | None]:
    """The version of the batch after `batch`, how many batches came from there on, and the first version from there
    on that changed rows and is of no batch of this query. Raises Refused where the log does not hold that commit."""
    of_query: dict[int, int] = {}
    strangers: list[int] = []
    for number, actions in deltalog.read_commits(log, range(log.earliest, log.latest + 1)):
        if (txn := _txn_version(actions, query_id)) is not None:
            of_query[number] = txn
        elif _changes_rows(actions):
            strangers.append(number)
    later = {n: txn for n, txn in of_query.items() if txn > batch}
    first = min(later, default=None)
    if first is None or later[first] != batch + 1:
        raise Refused(
            f"The table's log does not hold the commit of batch {batch + 1} any more, so what the table held before "
            "it is not known.",
            code=NOT_KEPT,
        )
    return first, len(later), next((n for n in strangers if n > first), None)


def _txn_version(actions: list[deltalog.Action], query_id: str) -> int | None:
    return next(
        (int(a["txn"]["version"]) for a in actions if a.get("txn") and a["txn"]["appId"] == query_id), None
    )


def _changes_rows(actions: list[deltalog.Action]) -> bool:
    moved = (a.get("add") or a.get("remove") for a in actions)
    return any(body and body.get("dataChange", True) for body in moved)


def _require_there(table: Store, files: Mapping[tuple[str, str], deltalog.AddedFile], batch: int) -> None:
    """Raise Refused where a data file of then is gone (VACUUM)."""
    walked, _, whole = table.walk()
    names = [unquote(f.path) for f in files.values()]
    inside = [name for name in names if not name.startswith("/") and "://" not in name]
    gone = next((name for name in inside if name not in walked), None)
    if not whole or len(inside) < len(names) or gone:
        raise Refused(
            f"Data files that the table had after batch {batch} are gone, or elsewhere: {gone or 'not all listed'}.",
            code=NOT_KEPT,
        )


def _sum_rows(files: Iterable[deltalog.AddedFile]) -> int | None:
    rows = [f.rows for f in files]
    known = [n for n in rows if n is not None]
    return sum(known) if len(known) == len(rows) else None


def _open_log(location: str) -> deltalog.DeltaLog:
    log = deltalog.list_log(Store.open(location))
    if log is None:
        raise Unreachable(f"{location} holds no Delta table. Check the path and the storage.")
    return log
