"""backup: keep what is about to be changed, before it is: the source as sealed, and what the checkpoint goes back to.

The plan holds the old text of the files that it changes, and the old checkpoint version stays where it is; the copy
is for the day on which the workspace has lost its files. Nothing outside of the database is written.
"""

import hashlib
from collections.abc import Mapping
from typing import Final

from recovery.contracts.results import BackupResult, KeptCheckpoint
from recovery.errors import Refused
from recovery.models import KeptFile, Step
from recovery.strategies.common import plural
from recovery.workflow.places import checkpoint_of
from recovery.workflow.planned_checkpoint import require_planned_checkpoint
from recovery.workflow.steps.base import Context, ProbeOutcome, saw

SECONDS = 600
LARGEST: Final = 32 * 1024 * 1024
"""Bytes of source that are kept of one pipeline."""


def run(context: Context) -> BackupResult:
    """Each file as sealed, or refused; then all of it read back from where it was kept."""
    sealed = context.contents.preconditions.code
    size = 0
    for path, sha256 in sealed.items():
        content = context.client.export(path)
        _as_sealed(path, content, sha256)
        size += len(content)
        if size > LARGEST:
            raise Refused(
                f"The source is larger than {LARGEST // 1024**2} MB, the most that is kept here. Keep a copy "
                "elsewhere, then skip this step and give its place as the reason.",
                code="too_large",
            )
        context.watch.guard()
        KeptFile.objects.update_or_create(
            step=context.step,
            path=path,
            defaults={"recovery": context.recovery, "sha256": sha256, "content": content},
        )
    checkpoint = _checkpoint(context)
    _read_back(context.step, sealed)
    version = "" if checkpoint.version is None else f"version {checkpoint.version}, "
    batch = (
        "before its first batch"
        if checkpoint.last_committed is None
        else f"batch {checkpoint.last_committed}"
    )
    context.log(
        f"Kept and read back: {plural(len(sealed), 'source file')}, {size:,} bytes. The checkpoint goes back to "
        f"{version}{batch}."
    )
    return BackupResult(files=dict(sealed), bytes=size, checkpoint=checkpoint)


def _as_sealed(path: str, content: bytes, sha256: str) -> None:
    now = hashlib.sha256(content).hexdigest()
    if now != sha256:
        raise Refused(
            f"{path} is not the file that the plan was made on (sha256 {now[:8]}, planned {sha256[:8]}). Nothing was "
            "changed. Seal a new plan."
        )


def _checkpoint(context: Context) -> KeptCheckpoint:
    """What a rollback must find again. Raises Refused when the checkpoint is no longer the planned one."""
    report = require_planned_checkpoint(context, so="Nothing was changed.")
    return KeptCheckpoint(
        place=checkpoint_of(context.flow),
        version=report.version,
        query_id=report.query_id,
        last_committed=report.last_committed,
        offsets=tuple(s.offset_json for s in report.sources),
        fingerprint=report.fingerprint,
    )


def _read_back(step: Step, sealed: Mapping[str, str]) -> None:
    read = {path: hashlib.sha256(content).hexdigest() for path, content in kept(step).items()}
    if read != dict(sealed):
        raise Refused("The backup does not read back as it was written. Run this step again.")


def kept(step: Step) -> dict[str, bytes]:
    """The source that a backup step kept, by path."""
    return {row.path: bytes(row.content) for row in KeptFile.objects.filter(step=step)}


def probe(step: Step) -> ProbeOutcome:
    """Nothing to find out: keeping it again changes nothing outside."""
    return ProbeOutcome(
        "again", [saw(True, "This step only reads the workspace and storage; it is safe to repeat.")]
    )
