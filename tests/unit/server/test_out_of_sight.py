"""Which errors are explained by a place that pipelines' code is kept from."""

from pathlib import Path

import pytest

from recovery.server.confinement import Confinement
from recovery.server.out_of_sight import hint_of_hidden_file


@pytest.mark.parametrize(
    ("message", "explained"),
    [
        ("[PATH_NOT_FOUND] Path does not exist: file:{hidden}/orders.csv. SQLSTATE: 42K03", True),
        ("[Errno 2] No such file or directory: '{hidden}/lookup.json'", True),
        ("[PATH_NOT_FOUND] Path does not exist: file:{open}/orders.csv. SQLSTATE: 42K03", False),
        ("[PATH_NOT_FOUND] Path does not exist: s3a://bucket{hidden}/x", False),
        ("division by zero", False),
    ],
)
def test_an_error_that_names_a_hidden_place_is_explained(
    tmp_path: Path, message: str, explained: bool
) -> None:
    for name in ("hidden", "open"):
        (tmp_path / name).mkdir()
    places = {name: str(tmp_path / name) for name in ("hidden", "open")}
    confinement = Confinement(hidden=(tmp_path / "hidden",))

    assert bool(hint_of_hidden_file([{"message": message.format(**places)}], confinement)) is explained
