"""The probe of the place that pipelines' code has: real ones, on this machine as it is and with less."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from recovery.errors import Refused
from recovery.server import jail, proof
from recovery.server.jail import Protection, machine_confinement, measure_protection
from recovery.server.proof import (
    ConfinementDemand,
    ConfinementLevel,
    ConfinementProof,
    check_proof,
    files_apart,
    prove_confinement,
)


@pytest.fixture
def home() -> Iterator[Path]:
    """A console's home."""
    place = Path(tempfile.mkdtemp(prefix="reprise-home-"))
    yield place
    shutil.rmtree(place)


@pytest.mark.parametrize(
    ("has", "level"),
    [
        ("everything", ConfinementLevel.FULL),
        ("namespaces", ConfinementLevel.CONSOLE),
        ("landlock", ConfinementLevel.FILES),
        ("nothing", ConfinementLevel.NONE),
    ],
)
def test_what_the_probe_reaches_is_what_the_machine_lets_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, has: str, level: ConfinementLevel
) -> None:
    measured = measure_protection()
    had = {
        "everything": measured,
        "namespaces": Protection(measured.bubblewrap, 0),
        "landlock": Protection(None, measured.landlock, "taken away by the test"),
        "nothing": Protection(None, 0, "taken away by the test"),
    }[has]
    for module in (jail, proof):
        monkeypatch.setattr(module, "measure_protection", lambda: had)
    updates = home / "updates"
    updates.mkdir()

    proven = prove_confinement(home, machine_confinement(home=home, writable=[updates]))

    assert proven.level is level, proven
    assert {"neighbour", "process"} & set(proven.reached) == (
        set() if had.landlock else {"neighbour", "process"}
    )
    assert (proven.namespaces, proven.landlock) == (bool(had.bubblewrap), had.landlock)
    assert list(updates.iterdir()) == []


@pytest.mark.parametrize(
    ("has", "hides", "reached"),
    [
        ("everything", True, ()),
        ("everything", False, ("apart",)),
        ("landlock", True, ()),
        ("nothing", True, ("apart",)),
    ],
)
def test_the_probe_tries_files_of_another_environments_server(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    has: str,
    hides: bool,
    reached: tuple[str, ...],
) -> None:
    measured = measure_protection()
    had = {
        "everything": measured,
        "landlock": Protection(None, measured.landlock, "taken away by the test"),
        "nothing": Protection(None, 0, "taken away by the test"),
    }[has]
    for module in (jail, proof):
        monkeypatch.setattr(module, "measure_protection", lambda: had)
    own = home / "environments/development"
    theirs = [home / "environments/production/pipelines.token", tmp_path / "production/storage/table/part-0"]
    for path in (*theirs, home / "instance.env", own / "pipelines.token"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("theirs")
    (own / "updates").mkdir()
    apart = [home, tmp_path / "production"]
    hiding = machine_confinement(home=own, writable=[own / "updates"], hidden=apart)
    (home / "gone").symlink_to(home / "nowhere")
    tried = files_apart([*apart, theirs[1]], hiding)[:-1]
    assert files_apart([theirs[1]], hiding) == [theirs[1]]
    assert set(tried) == {*theirs, home / "instance.env", own / "pipelines.token"}
    if not hides:
        monkeypatch.setattr(proof, "files_apart", lambda *_: tried)
    shown = hiding if hides else machine_confinement(home=own, writable=[own / "updates"])

    found = prove_confinement(own, shown, apart).reached

    assert {"apart"} & set(found) == set(reached)


@pytest.mark.parametrize(
    ("reached", "level", "starts_with"),
    [
        ((), ConfinementLevel.FULL, {"required", "container", "optional"}),
        (("neighbour",), ConfinementLevel.CONSOLE, {"required", "container", "optional"}),
        (("process",), ConfinementLevel.CONSOLE, {"required", "container", "optional"}),
        (("neighbour", "process"), ConfinementLevel.CONSOLE, {"required", "container", "optional"}),
        (("socket",), ConfinementLevel.FILES, {"container", "optional"}),
        (("socket", "neighbour"), ConfinementLevel.FILES, {"container", "optional"}),
        (("environment",), ConfinementLevel.NONE, {"optional"}),
        (("file", "socket", "environment", "signal", "neighbour"), ConfinementLevel.NONE, {"optional"}),
        (("apart",), ConfinementLevel.NONE, {"optional"}),
    ],
)
def test_the_server_starts_only_where_what_is_demanded_holds(
    reached: tuple[str, ...], level: ConfinementLevel, starts_with: set[str]
) -> None:
    proven = ConfinementProof(reached, namespaces=False, landlock=7, why="")
    assert proven.level is level
    for demand in ConfinementDemand:
        if demand.value in starts_with:
            check_proof(proven, demand)
        else:
            with pytest.raises(Refused) as refused:
                check_proof(proven, demand)
            assert refused.value.code == "not_confined"
