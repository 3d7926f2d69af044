"""A reader of the code is one value, whether Spark answers with it, a row holds it, or a test makes it."""

from dataclasses import asdict
from typing import Any

import pytest

from recovery.contracts.readers import NO_READER, SourceReader

NAMED: dict[str, Any] = {"format": "delta", "path": "shop.orders", "table": "shop.orders"}
PASSWORD = "open-sesame"


@pytest.mark.parametrize(
    ("reader", "place"),
    [
        (SourceReader("json", "/in/*", location="/in/*"), "/in/*"),
        (SourceReader("json", "/in"), "/in"),
        (SourceReader(**NAMED, location="file:/lake/orders"), "file:/lake/orders"),
        (SourceReader("delta", "shop.orders", location="/lake/orders"), "/lake/orders"),
        (SourceReader(**NAMED), ""),
        (SourceReader("table", "shop.orders"), ""),
        (SourceReader("kafka", options={"subscribe": "t"}), ""),
        (NO_READER, ""),
    ],
)
def test_the_name_of_a_table_is_no_place(reader: SourceReader, place: str) -> None:
    assert reader.place == place


def test_options_are_looked_up_as_spark_compares_them() -> None:
    assert SourceReader(options={"Subscribe": "Orders"}).lower_options == {"subscribe": "Orders"}


def test_a_key_that_no_reader_has_cannot_be_given() -> None:
    with pytest.raises(TypeError, match="location_"):
        SourceReader(**{"location_": "/in"})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("stored", "reader"),
    [
        (
            {"format": "kafka", "path": None, "options": {"subscribe": "t"}, "location": None},
            SourceReader("kafka", options={"subscribe": "t"}),
        ),
        (
            {"format": None, "path": "/in", "options": None, "location": "/in"},
            SourceReader("", "/in", location="/in"),
        ),
        ({**NAMED, "options": {}, "schema": "", "later": 1}, SourceReader(**NAMED)),
    ],
    ids=["kept with a flow", "kept without options", "in a kept study, of a newer release"],
)
def test_a_stored_reader_is_read_whatever_release_stored_it(
    stored: dict[str, Any], reader: SourceReader
) -> None:
    assert SourceReader.from_stored(stored) == reader
    assert SourceReader.from_stored(asdict(reader)) == reader


def test_neither_a_reader_nor_its_refusal_shows_an_option() -> None:
    assert PASSWORD not in repr(SourceReader("kafka", options={"x": PASSWORD}))
    with pytest.raises(ValueError, match="another shape") as caught:
        SourceReader.from_stored({"options": {"x": [PASSWORD]}})
    assert PASSWORD not in str(caught.value)
    assert caught.value.__suppress_context__
