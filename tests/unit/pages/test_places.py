"""A place has one spelling on every page."""

import pytest

from console.presenters import words


@pytest.mark.parametrize("place", ["file:///tmp/in", "file:/tmp/in", "file:////tmp/in", "/tmp/in"])
def test_a_local_place_is_shown_as_its_path(place: str) -> None:
    assert words.show_place(place) == "/tmp/in"


def test_any_other_place_is_shown_as_it_is() -> None:
    assert words.show_place("s3://lake/in") == "s3://lake/in"
