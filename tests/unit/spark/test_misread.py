"""A column that new files have with another type than those of before is found wherever it lies."""

import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from recovery.spark.misread import list_misread_columns

INT, LONG, TEXT = IntegerType(), LongType(), StringType()


def of(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


@pytest.mark.parametrize(
    ("before", "after", "misread"),
    [
        (of(id=INT, v=TEXT), of(id=INT, v=TEXT), []),
        (of(id=INT, v=TEXT), of(id=INT, v=INT), ["v"]),
        (of(id=INT), of(id=LONG), ["id"]),
        (of(id=INT, d=of(old=TEXT)), of(id=INT, d=of(name=TEXT)), ["d.old"]),
        (of(d=of(a=INT)), of(d=of(a=INT, b=INT)), []),
        (of(d=of(a=INT)), of(d=TEXT), ["d", "d.a"]),
        (of(a=ArrayType(of(x=INT))), of(a=ArrayType(of(y=INT))), ["a.element.x"]),
        (of(m=MapType(TEXT, INT)), of(m=MapType(TEXT, TEXT)), ["m.value"]),
        (of(id=INT, gone=TEXT), of(id=INT, came=TEXT), []),
        (of(price=DecimalType(10, 2)), of(price=DecimalType(10, 3)), ["price"]),
    ],
)
def test_what_no_one_schema_reads_is_named(before: StructType, after: StructType, misread: list[str]) -> None:
    assert list_misread_columns(before, after) == misread
