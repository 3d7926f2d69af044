"""In which order tests run, and which of them stay on one worker of xdist (`--dist loadgroup`)."""

import json
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

# Fixtures of a conftest that are dear to make and are made once in each worker.
DEAR = {"gallery": "gallery"}
ALONE = "alone"
#: Each keeps one worker for more than a minute. They begin first, in this order: at the end other workers would wait
#: for them. Only the first needs the instance at once, so the others do not wait while it starts.
LONG = (
    "tests/browser/test_walk.py",
    "tests/integration/test_matrix.py",
    "tests/browser/test_pages.py",
    "tests/integration/test_kafka_to_delta.py",
    "tests/integration/test_plain_streams.py",
    "tests/integration/test_when_things_are_wrong.py",
)
GROUPS = "groups.json"


def group(items: list[pytest.Item]) -> None:
    """Tests that strike the instance are one group, tests with a fixture of their module another one for each.

    All other tests go to whichever worker is free.
    """
    shared: dict[int, str] = {}  # the examples of one test have one object that says what fixtures it has
    for item in items:
        info = id(getattr(item, "_fixtureinfo", item))
        if info not in shared:
            shared[info] = group_by_fixtures(item)
        if name := ALONE if item.get_closest_marker(ALONE) else shared[info]:
            item.add_marker(pytest.mark.xdist_group(name))


def sort(items: list[pytest.Item]) -> None:
    """The long ones go first, tests that strike the instance last; the others keep their order."""

    def place(item: pytest.Item) -> tuple[bool, int]:
        module = item.nodeid.partition("::")[0]
        return item.get_closest_marker(ALONE) is not None, LONG.index(module) if module in LONG else len(LONG)

    items.sort(key=place)


def group_of(item: pytest.Item) -> str:
    """The name of its group, or ""."""
    return ALONE if item.get_closest_marker(ALONE) else group_by_fixtures(item)


def group_by_fixtures(item: pytest.Item) -> str:
    """The name of the group that its fixtures make, or ""."""
    names = getattr(item, "fixturenames", ())
    dear = next((DEAR[name] for name in names if name in DEAR), "")
    return dear or next((item.nodeid.partition("::")[0] for name in names if is_of_module(item, name)), "")


def is_of_module(item: pytest.Item, name: str) -> bool:
    """Whether a fixture is of the test's own module, and is made once for several of its tests."""
    info = getattr(item, "_fixtureinfo", None)
    definitions = info.name2fixturedefs.get(name, ()) if info else ()
    lasting = [definition for definition in definitions if definition.scope != "function"]
    return bool(lasting) and any(made.baseid == item.nodeid.partition("::")[0] for made in lasting)


def tell(items: list[pytest.Item], folder: Path, worker: str) -> None:
    """Say to the process that gives out the tests which group each is of: it has collected none itself."""
    marks = ((item, item.get_closest_marker("xdist_group")) for item in items)
    draft = folder / f".{worker}.{GROUPS}"
    draft.write_text(json.dumps({item.nodeid: mark.args[0] for item, mark in marks if mark}))
    draft.replace(folder / GROUPS)


class Groups(LoadScopeScheduling):
    """Gives out tests in their order, a group as a whole.

    xdist's own scheduler reads the group from the test's id, where pytest 9 no longer lets it be written; and it
    begins with the largest groups, so that those that must be last would come first.
    """

    def __init__(self, config: pytest.Config, log: Any, folder: Path) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, log)
        self.folder = folder
        self.group: dict[str, str] | None = None

    def _split_scope(self, nodeid: str) -> str:
        if self.group is None:
            self.group = json.loads((self.folder / GROUPS).read_text())
        return self.group.get(nodeid, nodeid)
