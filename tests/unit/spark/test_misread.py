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

from recovery.spark.misread import list_lacking_columns, list_misread_columns, list_partitions

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
        (of(id=INT), of(id=INT, came=TEXT), []),
        (of(Amount=INT), of(amount=TEXT), ["amount"]),
        (of(s=of(A=INT)), of(s=of(a=INT)), []),
        (of(v=TEXT), of(v=StringType("UTF8_LCASE")), []),
        (of(price=DecimalType(10, 2)), of(price=DecimalType(10, 3)), ["price"]),
    ],
)
def test_what_no_one_schema_reads_is_named(before: StructType, after: StructType, misread: list[str]) -> None:
    assert list_misread_columns(before, after) == misread


@pytest.mark.parametrize(
    ("before", "after", "lacking"),
    [
        (of(id=INT, Gone=TEXT), of(id=INT, came=TEXT), ["Gone"]),
        (of(id=INT), of(id=INT, came=TEXT), []),
        (of(Amount=INT), of(amount=TEXT), []),
        (of(d=of(a=INT)), of(d=of(b=INT)), []),
    ],
)
def test_a_column_that_new_files_lack_is_named(
    before: StructType, after: StructType, lacking: list[str]
) -> None:
    assert list_lacking_columns(before, after) == lacking


@pytest.mark.parametrize(
    ("file", "root", "partitions"),
    [
        ("file:///lake/orders/part-0.parquet", "/lake/orders", ()),
        ("file:///lake/orders/day=1/hour=2/part-0.parquet", "/lake/orders/", ("day", "hour")),
        ("hdfs://name:8020/lake/region=eu/orders/part-0.parquet", "/lake/region=eu/orders", ()),
        ("s3a://shop/orders/day=1/part-0.parquet", "s3://shop/orders", ("day",)),
        ("file:///lake/a%2520b/x=1/part-0.parquet", "/lake/a%20b", ("x",)),
        ("file:///lake/a%20b/x=1%20y/part-0.parquet", "/lake/a b", ("x",)),
        ("file:///lake/orders/a%253Ab=1/part-0.parquet", "/lake/orders", ("a:b",)),
        ("", "/lake/orders", None),
        ("file:///lake/orders2/day=1/part-0.parquet", "/lake/orders", None),
    ],
)
def test_the_folders_of_a_file_name_its_partitions(
    file: str, root: str, partitions: tuple[str, ...] | None
) -> None:
    assert list_partitions(file, root) == partitions
