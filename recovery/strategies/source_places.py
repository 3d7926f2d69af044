"""Whether a file source reads another folder than its committed files are in, or the sources changed places. Pure.

Spark knows a source of a checkpoint by its number alone, so it goes on with the log of another source, or of none of
the files that it finds.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from recovery.checkpoints.report import Finding, Severity, SourceProgress
from recovery.checkpoints.uris import decode_uri, path_in_store
from recovery.sources.base import SourceFacts

_GLOB: Final = re.compile(r"[*?\[{]")


def list_moved(sources: Sequence[SourceFacts], progress: Sequence[SourceProgress]) -> Iterator[Finding]:
    """One finding for each source of files that reads a folder with none of its committed files. `progress`: of each of
    the sources, as the checkpoint has it."""
    pairs = tuple(zip(sources, progress, strict=False))
    for source, done in pairs:
        if not done.committed.count or not _root_of(source) or _has_committed(done, at=source):
            continue
        number, files = source.position.source, f"{done.committed.count:,} committed files"
        reads = f"Source {number} reads {source.location}"
        owner = next((other for other in sources if _has_committed(done, at=other)), None)
        if owner is None:
            says = f"{reads}, where none of its {files} is. Spark reads every file there, also those read elsewhere."
            do = "Make sure that the files there are new ones."
            yield Finding("SOURCE_MOVED", Severity.WARNING, says, do)
        else:
            says = (
                f"{reads}, and its {files} are where source {owner.position.source} reads: the sources changed places, "
                "and Spark goes by their order."
            )
            yield Finding("SOURCES_SWAPPED", Severity.WARNING, says, "Put them back in their former order.")


def _has_committed(done: SourceProgress, *, at: SourceFacts) -> bool:
    """Whether a committed file is below the place that the source `at` reads."""
    root = _root_of(at)
    paths = (path_in_store(decode_uri(entry.path)) for entry in done.committed)
    return bool(root) and any(f"{path}/".startswith(root) for path in paths)


def _root_of(source: SourceFacts) -> str:
    """The folder that it reads, up to the first pattern; "" where it reads none."""
    path = path_in_store(source.location)
    if glob := _GLOB.search(path):
        path = path[: glob.start()].rpartition("/")[0]
    return f"{path.rstrip('/')}/" if path.startswith("/") else ""
