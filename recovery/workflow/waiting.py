"""Which input files of a flow wait: checkpoint beside storage, without asking Spark or running code."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLong
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils import timezone

from recovery import reach
from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.access import carry_access
from recovery.contracts.readers import ReaderOptions
from recovery.errors import Refused, RepriseError
from recovery.models import Flow
from recovery.pipelines.inputs import read_reader
from recovery.sources.base import SourceFacts
from recovery.sources.files import source_facts
from recovery.sources.live.files import list_files
from recovery.workflow.places import checkpoint_of

DESCRIBED: Final = "FileStreamSource["
"""How Spark describes a file source in a progress, before its qualified path (FileStreamSource.toString)."""


@dataclass(frozen=True)
class WaitingFiles:
    """Files in the sources' places that no committed batch holds. `files` None: not known, and `why` not.

    Reader options (a glob filter, recursion) stand in the code alone: they are applied where the code was studied
    (`filtered`). Else only a recovery, which runs the code, counts what Spark would really take.
    """

    at: datetime
    files: int | None = None
    size: int = 0  # bytes
    read: int = 0  # files of committed batches that are still there
    gone: int = 0  # files of committed batches that are not
    why: str = ""
    filtered: bool = False


@reach.of_flow
def read_waiting_files(flow: Flow, *, seconds: float = 2.0) -> WaitingFiles:
    """Look at disk for at most so long: a page must not hang on a storage that is slow or holds millions."""
    at = timezone.now()
    pool = ThreadPoolExecutor(1, thread_name_prefix="waiting")
    try:
        place = checkpoint_of(flow)
        options = _reader_options(flow)
        found = pool.submit(carry_access(_look), place, _described(flow), options).result(timeout=seconds)
    except RepriseError as problem:
        return WaitingFiles(at, why=problem.sentence)
    except TooLong:
        return WaitingFiles(at, why=f"Listing took longer than {seconds:.0f} s; a recovery counts it.")
    finally:
        pool.shutdown(wait=False)
    files = [f for s in found for f in s.waiting]
    return WaitingFiles(
        at,
        files=len(files),
        size=sum(f.size for f in files),
        read=sum(len(s.processed) for s in found),
        gone=sum(len(s.gone) for s in found),
        filtered=len(options) == len(found),
    )


def _reader_options(flow: Flow) -> dict[int, ReaderOptions]:
    """Options of each source's reader, as the code was studied last; {} where they are not known."""
    if flow.code_problem:
        return {}
    try:
        return {row.index: read_reader(row).options for row in flow.sources.all()}
    except (Refused, ValueError):
        return {}


def _described(flow: Flow) -> list[str]:
    """Where each source of the last batch that was seen reads from, as Spark described it; "" for no files."""
    told = (flow.last_progress or {}).get("sources")
    sources = told if isinstance(told, list) else []
    texts = [str(s.get("description") or "") if isinstance(s, dict) else "" for s in sources]
    return [t.removeprefix(DESCRIBED).removesuffix("]") if t.startswith(DESCRIBED) else "" for t in texts]


def _look(place: str, described: Sequence[str], options: Mapping[int, ReaderOptions]) -> list[SourceFacts]:
    """Raises Refused where a source's place or kind is not known, Unreachable where storage does not answer."""
    sources = inspect_checkpoint(place).sources
    if not sources:
        raise Refused(
            "No batch has been committed, so it is not known what was read.", code="nothing_committed"
        )
    found = []
    for source in sources:
        path = described[source.index] if source.index < len(described) else ""
        if source.kind != "files":
            raise Refused(
                "Only files are listed here. For any other source, see Unread input.", code="not_files"
            )
        if not path:
            raise Refused("No recorded batch shows which files the flow reads.", code="no_place")
        given = options.get(source.index, {})
        listing = list_files(path, options=given)
        found.append(
            source_facts(source, listing, location=path, max_files_per_trigger=None, options=given or None)
        )
    return found
