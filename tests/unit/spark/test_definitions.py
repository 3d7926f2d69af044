"""Files of the workspace are laid down inside one folder, and nowhere else."""

from pathlib import Path

import pytest

from recovery.errors import WrongUse
from recovery.spark.definitions import parts_of, write_files
from tests.refusals import refused


def test_files_keep_their_place_relative_to_the_root(tmp_path: Path) -> None:
    files = {"/Users/ann/p/a.py": "1", "/Users/ann/p/lib/b.py": "ü", "/Shared/c.py": "3"}
    placed = write_files(files, "/Users/ann/p", tmp_path)
    assert {n: str(p.relative_to(tmp_path)) for n, p in placed.items()} == {
        "/Users/ann/p/a.py": "a.py",
        "/Users/ann/p/lib/b.py": "lib/b.py",
        "/Shared/c.py": "Shared/c.py",
    }
    assert placed["/Users/ann/p/lib/b.py"].read_text(encoding="utf-8") == "ü"


@pytest.mark.parametrize("name", ["/Users/ann/p/../../x.py", "../x.py", "/Users/ann/p"])
def test_a_name_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    with refused("leaves_folder", WrongUse):
        write_files({name: ""}, "/Users/ann/p", tmp_path / "inside")


@pytest.mark.parametrize(
    ("name", "parts"),
    [("t", ("t",)), ("Db.T", ("db", "t")), ("`spark_catalog`.`db`.`t`", ("spark_catalog", "db", "t"))],
)
def test_names_are_compared_without_case_and_quotes(name: str, parts: tuple[str, ...]) -> None:
    assert parts_of(name) == parts
