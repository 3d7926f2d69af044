"""A source that nobody here can position: its offset is kept verbatim, and nothing is promised about it."""

from recovery.checkpoints.report import SourceProgress
from recovery.sources.base import Position, Precision, SourceFacts


def source_facts(
    progress: SourceProgress, *, location: str, max_files_per_trigger: int | None = None
) -> SourceFacts:
    """Facts that say that nothing is known beyond the offset line itself."""
    return SourceFacts(
        position=Position(
            source=progress.name or progress.index,
            kind="unknown",
            offset_json=progress.offset_json,
            label=progress.offset_json or "nothing read yet",
            precision=Precision.UNKNOWN,
            reachable=None,
        ),
        location=location,
        processed=(),
        waiting=(),
        max_files_per_trigger=max_files_per_trigger,
    )
