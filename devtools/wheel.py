"""Builds the wheel with the command `reprise`, for `bin/release` and for pip. Standard library only.

In it are the module of the entry point and all that it imports, whenever: nothing of console, server or tests. The same
commit gives the same bytes on any machine: files are in order and not compressed, and their time is that of the commit,
or SOURCE_DATE_EPOCH.
"""

import ast
import base64
import hashlib
import os
import stat
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
TAG: Final = "py3-none-any"
FIRST_TIME: Final = 315_532_800  # 1980, before which a ZIP knows no time


class CannotBuild(Exception):
    """The wheel would not work where it is installed; its text is one sentence."""


@dataclass(frozen=True)
class Project:
    """What pyproject.toml says of the wheel."""

    name: str
    version: str
    description: str
    requires_python: str
    readme: str
    #: requirements, as pip reads them
    dependencies: tuple[str, ...]
    #: requirements by extra
    extras: Mapping[str, tuple[str, ...]]
    #: `module:function` by command
    scripts: Mapping[str, str]


def read_project(root: Path = ROOT) -> Project:
    """Raises KeyError for what is missing."""
    of = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    return Project(
        name=of["name"],
        version=of["version"],
        description=of["description"],
        requires_python=of["requires-python"],
        readme=of["readme"],
        dependencies=tuple(of["dependencies"]),
        extras={name: tuple(needs) for name, needs in of["optional-dependencies"].items()},
        scripts=of["scripts"],
    )


def list_modules(entry: str, root: Path = ROOT) -> tuple[dict[str, Path], dict[str, str]]:
    """(modules of this folder that `entry` imports, itself and packages included, by name; others, and who imports
    them). Imports within functions count, and those for types alone."""
    modules: dict[str, Path] = {}
    others: dict[str, str] = {}
    waiting = [entry]
    while waiting:
        name = waiting.pop()
        path = _path_of(name, root)
        if path is None or name in modules:
            continue
        modules[name] = path
        waiting.append(name.rpartition(".")[0])
        for imported in _imports_of(path):
            if (root / imported.split(".")[0]).is_dir():
                waiting.append(imported)
            else:
                others.setdefault(imported.split(".")[0], name)
    return modules, others


def _path_of(module: str, root: Path) -> Path | None:
    """None for what is a name within a module."""
    place = root.joinpath(*module.split("."))
    files = (place.with_suffix(".py"), place / "__init__.py") if module else ()
    return next((file for file in files if file.is_file()), None)


def _imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_name(requirement: str) -> str:
    """`google-crc32c>=1.7` -> `google_crc32c`: what code imports of it."""
    end = next((at for at, c in enumerate(requirement) if c in "<>=!~;[ "), len(requirement))
    return requirement[:end].replace("-", "_")


def check_imports(project: Project, others: Mapping[str, str]) -> None:
    """Raises CannotBuild where a module needs a package that the wheel does not declare."""
    declared = {imported_name(requirement) for requirement in project.dependencies}
    for name, module in sorted(others.items()):
        if name not in declared and name not in sys.stdlib_module_names:
            raise CannotBuild(
                f"{module} imports {name}, which is no dependency of the wheel: the command would not start without "
                "it. Leave it out of what recovery.cli imports, or declare it in pyproject.toml."
            )


def write_metadata(project: Project, root: Path = ROOT) -> bytes:
    """METADATA, with the README as its text."""
    made = Message()
    for name, value in (
        ("Metadata-Version", "2.1"),
        ("Name", project.name),
        ("Version", project.version),
        ("Summary", project.description),
        ("Requires-Python", project.requires_python),
        *(("Requires-Dist", requirement) for requirement in project.dependencies),
        *(("Provides-Extra", extra) for extra in sorted(project.extras)),
        *(
            ("Requires-Dist", f"{requirement} ; extra == '{extra}'")
            for extra, needs in sorted(project.extras.items())
            for requirement in needs
        ),
        ("Description-Content-Type", "text/markdown; charset=UTF-8"),
    ):
        made.add_header(name, value)
    return made.as_string().encode() + (root / project.readme).read_bytes()


def list_files(project: Project, root: Path = ROOT) -> dict[str, bytes]:
    """Every file of the wheel but its RECORD, by its name in it. Raises CannotBuild."""
    files: dict[str, bytes] = {}
    for target in project.scripts.values():
        modules, others = list_modules(target.partition(":")[0], root)
        check_imports(project, others)
        files |= {str(path.relative_to(root)): path.read_bytes() for path in modules.values()}
    info = f"{project.name}-{project.version}.dist-info"
    scripts = "".join(f"{name} = {target}\n" for name, target in sorted(project.scripts.items()))
    wheel = f"Wheel-Version: 1.0\nGenerator: reprise\nRoot-Is-Purelib: true\nTag: {TAG}\n"
    return dict(sorted(files.items())) | {
        f"{info}/METADATA": write_metadata(project, root),
        f"{info}/WHEEL": wheel.encode(),
        f"{info}/entry_points.txt": f"[console_scripts]\n{scripts}".encode(),
    }


def write_record(files: Mapping[str, bytes], name: str) -> bytes:
    """RECORD: each file with the digest and the number of its bytes, and itself without."""
    lines = []
    for file, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{file},sha256={digest},{len(content)}\n")
    return "".join([*lines, f"{name},,\n"]).encode()


def source_time(root: Path = ROOT) -> int:
    """Seconds since 1970: SOURCE_DATE_EPOCH, else the time of the last commit, else 1980."""
    told = (
        os.environ.get("SOURCE_DATE_EPOCH")
        or subprocess.run(
            ["git", "log", "-1", "--format=%ct"], cwd=root, capture_output=True, text=True
        ).stdout
    )
    return max(FIRST_TIME, int(told)) if told.strip().isdigit() else FIRST_TIME


def write_wheel(folder: Path, root: Path = ROOT) -> Path:
    """The wheel, in this folder. Raises CannotBuild."""
    project = read_project(root)
    files = list_files(project, root)
    record = f"{project.name}-{project.version}.dist-info/RECORD"
    files[record] = write_record(files, record)
    folder.mkdir(parents=True, exist_ok=True)
    made = folder / f"{project.name}-{project.version}-{TAG}.whl"
    draft = made.with_suffix(".new")
    at = time.gmtime(source_time(root))[:6]
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_STORED) as zipped:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, at)
            entry.create_system, entry.external_attr = 3, (stat.S_IFREG | 0o644) << 16
            zipped.writestr(entry, content)
    draft.replace(made)
    return made


def build_wheel(
    wheel_directory: str,
    config_settings: Mapping[str, Any] | None = None,
    metadata_directory: str | None = None,
) -> str:
    """The hook of PEP 517, by which pip installs this folder; the wheel's name."""
    return write_wheel(Path(wheel_directory)).name


def get_requires_for_build_wheel(config_settings: Mapping[str, Any] | None = None) -> Sequence[str]:
    """Nothing: the standard library builds it."""
    return []
