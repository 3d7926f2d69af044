"""What tests of the judgement share: the findings of a place by their codes, and a file that goes with its sidecar."""

import shutil
from pathlib import Path

from recovery.checkpoints import inspect_checkpoint


def codes(where: Path, sink: Path | None = None, *, deep: bool = False) -> set[str]:
    report = inspect_checkpoint(str(where), sink=str(sink) if sink else None, deep=deep)
    return {f.code for f in report.findings}


def drop(root: Path, name: str) -> None:
    target = root / name
    (target.parent / f".{target.name}.crc").unlink(missing_ok=True)
    shutil.rmtree(target) if target.is_dir() else target.unlink()
