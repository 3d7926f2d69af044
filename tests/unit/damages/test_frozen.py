"""The places that Spark wrote are kept whole, and are made by today's recipes."""

import io
import re
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.damages import frozen, recipes
from tests.damages.bases_more import ALL_BASES
from tests.damages.cases import EVERY
from tests.damages.frozen import FrozenEntry, FrozenRecipe, checksum, is_sidecar, main_of
from tests.damages.stories import STORIES

PLACES = {
    **{name: recipes.of_base(base) for name, base in ALL_BASES.items()},
    **{s.name: s.recipe for s in STORIES},
}
RECORD_AGAIN = "record again: tests/fixtures/damages/README.md says how"
# A home, a temporary directory, a workspace: what no path in an archive may begin with.
MACHINE = re.compile(rb"/(?:tmp|home|root|work|Users|private|mnt|opt|usr|var/folders)/[\w.-]+")


def test_every_case_has_its_place_and_every_place_its_case() -> None:
    assert {case.base for case in EVERY} == set(ALL_BASES)
    assert {p.name for p in frozen.FIXTURES.glob("*.tar.xz")} == {
        frozen.archive(name).name for name in PLACES
    }


def test_every_place_was_made_by_today_s_recipe_and_spark() -> None:
    today = {name: FrozenRecipe(recipe, version("pyspark")) for name, recipe in PLACES.items()}
    assert frozen.recipes() == today, RECORD_AGAIN


def test_all_places_together_are_small() -> None:
    assert sum(file.stat().st_size for file in frozen.FIXTURES.iterdir()) < 3_000_000


def unzipped(data: bytes) -> bytes:
    """The bytes, and what is in them when they are a zip."""
    if not data.startswith(b"PK"):
        return data
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return data + b"\n".join(archive.read(name) for name in archive.namelist())


@pytest.mark.parametrize("name", PLACES)
def test_no_path_of_the_machine_is_in_it(name: str) -> None:
    for entry in frozen.load(name):
        assert not MACHINE.findall(unzipped(entry.data or b"")), entry.name


@pytest.mark.parametrize("name", PLACES)
def test_checksum_files_fit_their_files_before_and_after_the_place_is_moved(
    name: str, tmp_path: Path
) -> None:
    frozen.lay_out(frozen.load(name), tmp_path / "moved")
    files = {e.name: e.data for e in frozen.load(name) if e.data is not None}
    for sidecar in (n for n in files if is_sidecar(n) and main_of(n) in files):
        assert files[sidecar] == checksum(files[main_of(sidecar)]), sidecar
        moved = tmp_path / "moved" / sidecar
        assert moved.read_bytes() == checksum((tmp_path / "moved" / main_of(sidecar)).read_bytes()), sidecar


@pytest.mark.parametrize("name", PLACES)
def test_a_place_that_is_laid_out_and_taken_again_is_the_same(name: str, tmp_path: Path) -> None:
    frozen.lay_out(frozen.load(name), tmp_path / "moved")
    assert frozen.take(tmp_path / "moved") == frozen.load(name)
    assert frozen.pack(frozen.load(name)) == frozen.pack(frozen.load(name))


def test_paths_in_logs_are_those_of_the_place(tmp_path: Path) -> None:
    frozen.lay_out(frozen.load("files to a file table"), tmp_path / "here")
    assert f"file://{tmp_path}/here/in0/part%20000.json" in (tmp_path / "here/flow/0/sources/0/0").read_text()
    assert frozen.ROOT not in (tmp_path / "here/table/_spark_metadata/0").read_text()
    assert (tmp_path / "here/in0/part 002.json").stat().st_mtime == 1_700_000_002


def test_a_path_inside_of_bytes_with_lengths_is_refused(tmp_path: Path) -> None:
    (tmp_path / "schema").write_bytes(b"\xff\x10" + f"{tmp_path}/state".encode())
    with pytest.raises(UnicodeDecodeError):
        frozen.take(tmp_path)


def test_a_recipe_is_the_code_and_the_settings_and_not_the_comments() -> None:
    assert len(set(PLACES.values())) == len(PLACES)
    code = recipes.code_of(ALL_BASES["dropDuplicates"].query)
    assert {name.removeprefix("tests.damages.bases.") for name in code} >= {
        "dedupe", "_to_table", "make", "run", "_through", "settings", "Place.put", "EPOCH", "STREAMING", "RUN_SECONDS",
    }  # fmt: skip
    assert "windows" not in code
    assert (
        recipes.plain('def f():\n    """Why."""\n    return (  # how\n        1)') == "def f():\n    return 1"
    )


def test_an_entry_keeps_its_time(tmp_path: Path) -> None:
    entries = (FrozenEntry("in0", None), FrozenEntry("in0/a", b"x", 1_763_850_000_123))
    assert frozen.unpack(frozen.pack(entries)) == entries
    frozen.lay_out(entries, tmp_path / "new")
    assert frozen.take(tmp_path / "new") == entries
