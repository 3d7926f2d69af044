"""Which columns are compared, and as which type: no value becomes another one, and no two become one."""

import pytest
from pyspark.sql import types as T

from recovery.spark.comparable import NoSuchColumn, NotComparable, common_type, resolved
from recovery.spark.counting import ComparedColumns


def parsed(text: str) -> T.DataType:
    simple = {"string": T.StringType(), "lower": T.StringType("UTF8_LCASE"), "void": T.NullType()}
    if text in simple:
        return simple[text]
    if text.startswith("struct<"):
        fields = [one.split(":") for one in text[7:-1].split("; ")]
        return T.StructType([T.StructField(name, parsed(kind), nullable=False) for name, kind in fields])
    if text.startswith("array<"):
        return T.ArrayType(parsed(text[6:-1]), containsNull=False)
    if text.startswith("map<"):
        return T.MapType(*(parsed(one) for one in text[4:-1].split("; ")))
    return T._parse_datatype_json_value({"int": "integer", "bigint": "long"}.get(text, text))


COMMON = [
    ("int", "int", "int"),
    ("bigint", "int", "bigint"),
    ("int", "bigint", "bigint"),
    ("float", "double", "double"),
    ("int", "double", "double"),
    ("int", "float", "double"),
    ("decimal(10,2)", "decimal(12,1)", "decimal(13,2)"),
    ("bigint", "decimal(10,2)", "decimal(22,2)"),
    ("int", "string", "string"),
    ("date", "string", "string"),
    ("void", "string", "string"),
    ("lower", "string", "string"),
    ("array<int>", "array<bigint>", "array<bigint>"),
    ("map<lower; int>", "map<string; bigint>", "map<string; bigint>"),
    ("struct<lat:int; lon:int>", "struct<lon:bigint; lat:int>", "struct<lat:int; lon:bigint>"),
    ("struct<Lat:int>", "struct<lat:int>", "struct<Lat:int>"),
]
NONE = [
    ("bigint", "double"),
    ("double", "bigint"),
    ("bigint", "float"),
    ("decimal(38,10)", "decimal(38,2)"),
    ("decimal(10,2)", "double"),
    ("string", "int"),
    ("double", "string"),
    ("timestamp", "string"),
    ("timestamp", "timestamp_ntz"),
    ("date", "timestamp"),
    ("binary", "string"),
    ("struct<lat:int>", "struct<lat:int; lon:int>"),
    ("struct<lat:int; lon:int>", "struct<lat:int>"),
    ("struct<lat:int>", "array<int>"),
]


@pytest.mark.parametrize(("mine", "theirs", "wanted"), COMMON, ids=str)
def test_a_type_is_widened_where_every_value_stays_what_it_is(mine: str, theirs: str, wanted: str) -> None:
    found = common_type("v", parsed(mine), parsed(theirs))
    assert found.simpleString() == parsed(wanted).simpleString()


@pytest.mark.parametrize(("mine", "theirs"), NONE, ids=str)
def test_other_types_are_not_compared(mine: str, theirs: str) -> None:
    with pytest.raises(NotComparable) as refused:
        common_type("v", parsed(mine), parsed(theirs))
    assert refused.value.column == "v"
    assert refused.value.types == (parsed(mine).simpleString(), parsed(theirs).simpleString())
    assert all(one in str(refused.value) for one in ("v", *refused.value.types))


def test_the_field_that_differs_is_named_with_its_own_types() -> None:
    mine, theirs = parsed("array<struct<a:int; b:bigint>>"), parsed("array<struct<b:double; a:int>>")
    with pytest.raises(NotComparable) as refused:
        common_type("v", mine, theirs)
    assert (refused.value.column, refused.value.types) == ("v.element.b", ("bigint", "double"))


def test_a_key_of_drop_duplicates_keeps_its_collation() -> None:
    found = common_type("v", parsed("lower"), parsed("string"), by_collation=True)
    assert found.simpleString() == "string collate UTF8_LCASE"


def test_columns_that_differ_in_case_alone_are_each_compared() -> None:
    columns = ["id", "ID", "amount"]
    assert resolved(columns, columns, "The table") == columns
    assert resolved(["ID", "Amount"], columns, "The table") == ["ID", "amount"]


def test_a_key_is_the_column_that_it_names() -> None:
    assert ComparedColumns(["id", "ID", "amount"], ["id"]).at == [0]
    assert ComparedColumns(["id", "ID", "amount"], ["ID"]).at == [1]


@pytest.mark.parametrize(
    ("key", "columns"),
    [
        (["Id"], ["id", "ID"]),  # may be either
        (["id", "ID"], ["id"]),  # one column is not compared with two
        (["day"], ["id"]),
    ],
    ids=["either", "two for one", "none"],
)
def test_a_name_that_is_not_one_column_is_refused(key: list[str], columns: list[str]) -> None:
    with pytest.raises(NoSuchColumn):
        resolved(key, columns, "The table")
