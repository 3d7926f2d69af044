"""Has anything moved since the plan was sealed? Any drift voids it, for good."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from recovery.contracts.plan import CheckpointMark, PlanBody, Preconditions, SinkMark
from recovery.plans.values import Drift

SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "configuration": "configuration",
        "session": "session settings",
        "catalog": "catalog",
        "schema": "schema",
        "libraries": "list of source files",
        "root_path": "root folder",
        "storage": "storage location",
        "environment": "Python environment",
        "variables": "environment variables",
    }
)
"""What of a pipeline's settings its code reads, and where its data then lies; as people call it. What a recovery itself
changes (continuous mode, retries) is not among them."""


def compare(planned: Preconditions, now: Preconditions) -> list[Drift]:
    """What has moved since the plan was sealed, most telling first."""
    update = now.active_update
    running = Drift(
        "update",
        planned.active_update or "none",
        str(update),
        f"Update {update} is running; the plan was made on a stopped pipeline.",
    )
    return [
        *([running] if update else []),
        *_checkpoint(planned.checkpoint, now.checkpoint),
        *_sink(planned.sink, now.sink),
        *_code(planned.code, now.code),
        *_settings(planned.settings, now.settings),
    ]


def compare_reviewed(
    contents: PlanBody, *, code: Mapping[str, str], settings: Mapping[str, str]
) -> list[Drift]:
    """How code and settings, as they are now, differ from what was reviewed. Checkpoint and sink are the plan's to
    change."""
    return [*_code(contents.reviewed_code, code), *_settings(contents.preconditions.settings, settings)]


def _checkpoint(old: CheckpointMark, new: CheckpointMark) -> list[Drift]:
    if old == new:
        return []
    if old.version != new.version:
        says = (
            f"The flow's checkpoint is version {new.version} now; the plan was made on version {old.version}."
        )
    elif old.last_committed != new.last_committed:
        says = (
            f"Batch {new.last_committed} is the last committed one now; the plan was made after batch "
            f"{old.last_committed}."
        )
    else:
        says = "Files of the checkpoint have changed since the plan was made."
    return [Drift("checkpoint", _brief(old), _brief(new), says)]


def _brief(checkpoint: CheckpointMark) -> str:
    return f"version {checkpoint.version}, batch {checkpoint.last_committed}, {checkpoint.fingerprint[:8]}"


def _sink(old: SinkMark, new: SinkMark) -> list[Drift]:
    if old == new:
        return []
    if old.declared is not None or new.declared is not None:
        return [Drift("sink", _mark(old), _mark(new), "The sink is another one than when the plan was made.")]
    if old.head != new.head:
        says = f"The table's log ends at batch {new.head} now; the plan was made when it ended at {old.head}."
    else:
        says = "Files of the table's log have changed since the plan was made."
    return [Drift("sink", f"batch {old.head}", f"batch {new.head}", says)]


def _mark(sink: SinkMark) -> str:
    declared = "a table" if sink.declared is None else sink.declared
    return f"{declared}, batch {sink.head}, {sink.fingerprint[:8]}"


def _code(old: Mapping[str, str], new: Mapping[str, str]) -> list[Drift]:
    drift = []
    for path in sorted({*old, *new}):
        before, after = old.get(path), new.get(path)
        if before != after:
            verb = "is new" if before is None else "is gone" if after is None else "was edited"
            drift.append(
                Drift(
                    "code",
                    (before or "none")[:8],
                    (after or "none")[:8],
                    f"{path} {verb} since the plan was made.",
                )
            )
    return drift


def _settings(old: Mapping[str, str], new: Mapping[str, str]) -> list[Drift]:
    """By part, of those that the plan has noted: one that was sealed before settings were kept has none."""
    return [
        Drift(
            "settings",
            old[part][:8],
            (new.get(part) or "none")[:8],
            f"The pipeline's {SETTINGS.get(part, part)} changed since the plan was made.",
        )
        for part in sorted(old)
        if old[part] != new.get(part)
    ]
