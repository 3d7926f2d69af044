"""Which tests can tell that a change broke something: `python -m devtools.changed [REF]` prints pytest's arguments.

By the import graph: a unit test is chosen when its module imports a changed module, directly or through others. A file
that no test imports (a template, a page of docs, a fixture, a process) chooses the tests that name it or its folder.
Pages and the API are reached by an address, so a change of theirs chooses their tests by folder and text. What only a
running instance shows is left to the smoke test, which is chosen when other product code changed.
"""

import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("console", "recovery", "devtools", "tests")
PRODUCT = ("console", "recovery")
#: Every test stands on these, so a change of one of them asks them all.
EVERYWHERE = (
    "tests/conftest.py", "tests/unit/conftest.py", "pyproject.toml", "requirements/dev.txt", "console/settings.py",
)  # fmt: skip
#: What only pages show: a whole recovery by commands meets none of it.
SHOWN = ("console/pages/", "console/presenters/", "console/static/", "templates/")
API = "console/api/"


@dataclass(frozen=True)
class ChangedTests:
    """What a change asks for."""

    #: Paths of test files below tests/unit, or that folder alone.
    unit: tuple[str, ...]
    #: Paths of test files that need a running instance and were changed themselves.
    running: tuple[str, ...]
    #: Whether product code changed, so that one whole recovery is asked too.
    smoke: bool


def list_changed_files(ref: str = "") -> list[str]:
    """Paths that differ from `ref`, with uncommitted and untracked ones.

    Without `ref`: since the branch left its upstream; where nothing differs from that, the last commit.
    """
    base = ref or _read_git("merge-base", "HEAD", "@{upstream}").strip() or "HEAD"
    changed = _list_differing(base)
    return changed if changed or ref else _list_differing("HEAD~1")


def _list_differing(base: str) -> list[str]:
    tracked = _read_git("diff", "--name-only", base).splitlines()
    return sorted({*tracked, *_read_git("ls-files", "--others", "--exclude-standard").splitlines()})


def _read_git(*arguments: str) -> str:
    """What git prints; "" where it refuses (no upstream, no earlier commit)."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True).stdout


def choose_tests(changed: Collection[str], graph: grimp.ImportGraph) -> ChangedTests:
    """The tests that a change of these files can break."""
    importers, unimported = set(), []
    for path in changed:
        module = module_of(path)
        reached = {module, *graph.find_downstream_modules(module)} if module in graph.modules else set()
        importers |= reached
        if not any(map(_is_test, reached)):
            unimported.append(path)
    chosen = {path_of(m) for m in importers if _is_test(m)} | _list_tests_naming(unimported)
    chosen |= _list_tests_by_address(changed)
    chosen = {path for path in chosen if (ROOT / path).is_file()}
    unit = {path for path in chosen if path.startswith("tests/unit/")}
    if any(path in EVERYWHERE for path in changed):
        unit = {"tests/unit"}
    # Nearly every test on an instance reaches everything through it, so only those changed themselves are asked.
    running = {path for path in changed if _is_test(module_of(path)) and path in chosen - unit}
    smoke = any(path.split("/")[0] in PRODUCT and not path.startswith(SHOWN) for path in changed)
    return ChangedTests(tuple(sorted(unit)), tuple(sorted(running - unit)), smoke)


def module_of(path: str) -> str:
    """The dotted name of a Python file: `a/b/__init__.py` is `a.b`; "" for other files."""
    if not path.endswith(".py"):
        return ""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def path_of(module: str) -> str:
    return module.replace(".", "/") + ".py"


def _is_test(module: str) -> bool:
    return module.startswith("tests.") and module.rsplit(".", 1)[-1].startswith("test_")


def _list_tests_naming(paths: Iterable[str]) -> set[str]:
    """Unit tests whose text names a file, or the folder of a fixture."""
    names = set()
    for path in paths:
        parts = Path(path).parts
        if parts[0] == "templates":
            continue
        if parts[:2] == ("tests", "fixtures"):
            names |= set(parts[2:3])
        elif parts[0] != "tests":
            names.add(parts[-1])
    return _list_tests_with(names)


def _list_tests_by_address(paths: Iterable[str]) -> set[str]:
    """Unit tests of pages and of the API: they reach these by an address, and import none of them."""
    chosen = _list_tests_with({"client.get("} if any(path.startswith(SHOWN) for path in paths) else ())
    if any(path.startswith(API) for path in paths):
        chosen |= {str(test.relative_to(ROOT)) for test in (ROOT / "tests/unit/api").glob("test_*.py")}
    return chosen


def _list_tests_with(words: Collection[str]) -> set[str]:
    """Unit tests whose text has one of these words."""
    if not words:
        return set()
    pattern = re.compile("|".join(re.escape(word) for word in sorted(words)))
    tests = (ROOT / "tests/unit").rglob("test_*.py")
    return {str(test.relative_to(ROOT)) for test in tests if pattern.search(test.read_text())}


def main(arguments: Sequence[str]) -> int:
    """Prints three lines: unit tests, tests on an instance, and `smoke` or nothing."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    chosen = choose_tests(list_changed_files(*arguments[:1]), graph)
    print(" ".join(chosen.unit))
    print(" ".join(chosen.running))
    print("smoke" if chosen.smoke else "")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
