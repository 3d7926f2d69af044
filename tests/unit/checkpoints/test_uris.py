"""A place has one spelling, whoever wrote it down."""

import pytest

from recovery.checkpoints.uris import strip_file_scheme


@pytest.mark.parametrize(
    "place", ["file:///tmp/in", "file:/tmp/in", "file:////tmp/in", "/tmp/in", "//tmp/in"]
)
def test_a_local_place_becomes_its_path(place: str) -> None:
    assert strip_file_scheme(place) == "/tmp/in"


@pytest.mark.parametrize("place", ["s3://lake/in", "s3a://lake/in", "lake.orders", "file:in"])
def test_any_other_place_stays_as_it_is(place: str) -> None:
    assert strip_file_scheme(place) == place
