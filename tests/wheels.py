"""The wheel of `bin/release`, unpacked or installed, as the tests run it; and what `bin/manage` says of the same."""

import os
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata
from pathlib import Path

from devtools import wheel

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "tests" / "fixtures"


def unpack_wheel(folder: Path) -> Path:
    """Build it and unpack it, as pip does."""
    made = wheel.write_wheel(folder)
    with zipfile.ZipFile(made) as zipped:
        zipped.extractall(folder / "unpacked")  # noqa: S202  # our own
    return folder / "unpacked"


def link_packages(folder: Path, requirements: tuple[str, ...]) -> Path:
    """A folder in which these requirements can be imported with their own, and nothing else of this environment."""
    folder.mkdir()
    waiting, seen = list(requirements), set[str]()
    while waiting:
        name = wheel.imported_name(waiting.pop())
        if name in seen:
            continue
        seen.add(name)
        package = metadata.distribution(name)
        needs = [need for need in package.requires or () if "extra ==" not in need]
        waiting += needs
        for top in {file.parts[0] for file in package.files or () if file.parts[0] != ".."}:
            if top != "__pycache__":
                (folder / top).symlink_to(Path(str(package.locate_file(top))))
    return folder


def run_bare(paths: list[Path], code: str, *arguments: str, stdin: str = "") -> tuple[int, str]:
    """Exit code and stdout of code in an interpreter that finds modules in these folders alone."""
    start = f"import sys; sys.path[:0] = {[str(p) for p in paths]!r}; {code}"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", start, *arguments], capture_output=True, text=True, input=stdin
    )
    return done.returncode, done.stdout + (done.stderr if "Traceback" in done.stderr else "")


def run_manage(home: Path, *arguments: str) -> tuple[int, str]:
    """Exit code and stdout of `manage.py` in this environment, with a home that no instance has."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("REPRISE_")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments],
        capture_output=True, text=True, env={**env, "REPRISE_HOME": str(home)}, cwd=ROOT,
    )  # fmt: skip
    return done.returncode, done.stdout


def unpack_checkpoint(name: str, folder: Path) -> Path:
    """A checkpoint that Spark wrote, of tests/fixtures/checkpoints."""
    with tarfile.open(FIXTURES / "checkpoints" / f"{name}.tar.xz") as packed:
        packed.extractall(folder / name, filter="data")
    return folder / name
