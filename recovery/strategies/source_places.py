"""Whether a file source reads another folder than its committed files lie in, or the sources changed places. Pure.

Spark knows a source of a checkpoint by its number alone, so it goes on with the log of another source, or of none of
the files that it finds.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from recovery.checkpoints.report import Finding, Severity
from recovery.sources.base import SourceFacts

_AUTHORITY: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
_GLOB: Final = re.compile(r"[*?\[{]")


def list_moved(sources: Sequence[SourceFacts]) -> Iterator[Finding]:
    """One finding for each source whose committed files all lie elsewhere than it reads."""
    for source in sources:
        if _lie_elsewhere(source, source.location):
            number = source.position.source
            owner = next(
                (s for s in sources if s is not source and not _lie_elsewhere(source, s.location)), None
            )
            if owner is not None:
                says = (
                    f"Source {number} reads {source.location}, and its committed files lie where source "
                    f"{owner.position.source} reads: the sources changed places, and Spark goes by their order."
                )
                yield Finding(
                    "SOURCES_SWAPPED", Severity.WARNING, says, "Put them back in their former order."
                )
                continue
            says = (
                f"Source {number} reads {source.location}, and none of its {len(source.processed):,} committed files "
                "lies there: Spark reads every file there, those too that it read elsewhere."
            )
            yield Finding(
                "SOURCE_MOVED", Severity.WARNING, says, "Make sure that the files there are new ones."
            )


def _lie_elsewhere(source: SourceFacts, location: str) -> bool:
    """Whether it is known that this place has none of its committed files."""
    root = _path_of(location)
    if not root.startswith("/") or not source.processed:
        return False
    if glob := _GLOB.search(root):
        root = root[: glob.start()].rpartition("/")[0]
    root = f"{root.rstrip('/')}/"
    return not any(
        _path_of(file.path).startswith(root) or _path_of(file.path) == root[:-1] for file in source.processed
    )


def _path_of(uri: str) -> str:
    """Without scheme and host: s3 and s3a, file:/ and file:/// are spellings of one place."""
    return _AUTHORITY.sub("", uri)
