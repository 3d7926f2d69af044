"""Which tests can tell that a change broke something: `python -m devtools.changed [REF]` prints pytest's arguments.

By the import graph: a unit test is chosen when its module imports a changed module, directly or through others. The
nearest come first, and as many as three minutes hold; what is left out is counted, and `bin/test` runs it. A file that
no test imports (a template, a page of docs, a fixture, a process) chooses the tests that name it or its folder.
Pages and the API are reached by an address, so a change of theirs chooses their tests by folder and text. What only a
running instance shows is left to the smoke test, which is chosen when other product code changed.
"""

import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
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
SECONDS_OF_RUNS = ROOT / ".venv" / "seconds"
#: Of a test file that no run has measured: what one takes on average.
USUAL_SECONDS = 1.3
#: What the chosen unit tests may take together, one after another; three workers on two cores do them 2.4 times as
#: fast. With checks, collection and a whole recovery that makes three minutes.
HELD_SECONDS, HELD_WITH_SMOKE = 330, 220


@dataclass(frozen=True)
class ChangedTests:
    """What a change asks for."""

    #: Paths of test files below tests/unit, or that folder alone.
    unit: tuple[str, ...]
    #: Paths of unit tests that it can break too, further away than three minutes hold.
    left_out: tuple[str, ...]
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


def choose_tests(
    changed: Collection[str], graph: grimp.ImportGraph, seconds: Mapping[str, float] | None = None
) -> ChangedTests:
    """The tests that a change of these files can break. `seconds`: what each test file took, by path."""
    steps: dict[str, int] = {}  # imports from a changed module to the test file
    unimported = []
    for path in changed:
        reached = {
            path_of(module): count
            for module, count in count_imports(module_of(path), graph)
            if _is_test(module)
        }
        steps |= {test: min(count, steps.get(test, count)) for test, count in reached.items()}
        if not reached:
            unimported.append(path)
    steps |= dict.fromkeys(_list_tests_naming(unimported) | _list_tests_by_address(changed), 1)
    chosen = sorted((path for path in steps if (ROOT / path).is_file()), key=lambda path: (steps[path], path))
    # Nearly every test on an instance reaches everything through it, so only those changed themselves are asked.
    running = {path for path in chosen if path in changed and not path.startswith("tests/unit/")}
    smoke = any(path.split("/")[0] in PRODUCT and not path.startswith(SHOWN) for path in changed)
    if any(path in EVERYWHERE for path in changed):
        return ChangedTests(("tests/unit",), (), tuple(sorted(running)), smoke)
    unit = [path for path in chosen if path.startswith("tests/unit/")]
    held = _count_held(unit, seconds or {}, HELD_WITH_SMOKE if smoke else HELD_SECONDS)
    near = sum(steps[path] <= 1 for path in unit)  # what imports or names the change itself is never left out
    kept = max(held, near)
    return ChangedTests(tuple(unit[:kept]), tuple(unit[kept:]), tuple(sorted(running)), smoke)


def count_imports(module: str, graph: grimp.ImportGraph) -> list[tuple[str, int]]:
    """The module with 0, and each that imports it, with the fewest imports that lead there; [] for one unknown."""
    if module not in graph.modules:
        return []
    steps, front = {module: 0}, {module}
    while front:
        count = max(steps.values()) + 1
        front = {i for m in front for i in graph.find_modules_that_directly_import(m)} - steps.keys()
        steps |= dict.fromkeys(front, count)
    return list(steps.items())


def _count_held(paths: Sequence[str], seconds: Mapping[str, float], limit: float) -> int:
    """How many of them, from the first, end within the limit."""
    used = 0.0
    for count, path in enumerate(paths):
        used += seconds.get(path, USUAL_SECONDS)
        if used > limit:
            return count
    return len(paths)


def read_seconds(folder: Path = SECONDS_OF_RUNS) -> dict[str, float]:
    """`{path of a test file: seconds}` of the last runs, as `bin/test` left them; {} before the first."""
    seconds: dict[str, float] = defaultdict(float)
    for file in sorted(folder.glob("unit-*.jsonl")):
        for line in file.read_text().splitlines():
            test = json.loads(line)
            seconds[test["nodeid"].partition("::")[0]] += test["setup"] + test["call"]
    return dict(seconds)


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
    """Prints four lines: unit tests, tests on an instance, `smoke` or nothing, and how many files are left out."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    chosen = choose_tests(list_changed_files(*arguments[:1]), graph, read_seconds())
    print(" ".join(chosen.unit))
    print(" ".join(chosen.running))
    print("smoke" if chosen.smoke else "")
    print(len(chosen.left_out))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
