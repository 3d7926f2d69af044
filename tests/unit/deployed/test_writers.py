"""Several processes append to one audit log at once: one chain, on either database."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import databases
from tests.unit.deployed.instance import Place

pytestmark = pytest.mark.database


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place.new(tmp_path / "here")
    made.manage("migrate", "-v", "0")
    yield made
    databases.drop(made.made)


def test_four_writers_make_one_chain(place: Place) -> None:
    code = 'for n in range(25): append_entry(action="step.run", outcome="done", by=SYSTEM, says=str(n))'
    writers = [place.begin(code) for _ in itertools.repeat(None, 4)]
    for writer in writers:
        writer.communicate(timeout=120)

    assert [writer.returncode for writer in writers] == [0, 0, 0, 0]
    found = place.python("print(json.dumps(verify_chain()))")
    assert (found["ok"], found["entries"]) == (True, 100)
