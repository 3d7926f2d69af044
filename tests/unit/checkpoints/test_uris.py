"""A place has one spelling, whoever wrote it down."""

import pytest

from recovery.checkpoints.uris import spell_place, strip_file_scheme


@pytest.mark.parametrize(
    "place", ["file:///tmp/in", "file:/tmp/in", "file:////tmp/in", "/tmp/in", "//tmp/in"]
)
def test_a_local_place_becomes_its_path(place: str) -> None:
    assert strip_file_scheme(place) == "/tmp/in"


@pytest.mark.parametrize("place", ["s3://lake/in", "s3a://lake/in", "lake.orders", "file:in"])
def test_any_other_place_stays_as_it_is(place: str) -> None:
    assert strip_file_scheme(place) == place


@pytest.mark.parametrize(
    ("place", "spelled"),
    [
        ("/x/a", "/x/a"),
        ("//x//a/./", "/x/a"),
        ("file:/x/a", "/x/a"),
        ("file:///x/a/", "/x/a"),
        ("FILE://localhost/x/a", "/x/a"),
        ("/", "/"),
        ("s3a://lake/x/a", "s3://lake/x/a"),
        ("S3N://Lake:443//x/./a/", "s3://lake/x/a"),
        ("s3://lake", "s3://lake"),
        ("s3://lake/", "s3://lake"),
        ("s3://lake/X", "s3://lake/X"),
        ("gcs://lake/x", "gs://lake/x"),
        ("hdfs://NN:8020/x", "hdfs://nn/x"),
        ("hdfs://nn:08020/x", "hdfs://nn/x"),
        ("hdfs://nn:09000/x", "hdfs://nn:9000/x"),
        ("hdfs://nn./x", "hdfs://nn/x"),
        ("hdfs://nn:9000/x", "hdfs://nn:9000/x"),
        ("hdfs://[::1]:8020/x", "hdfs://[::1]/x"),
        ("hdfs:///x", "hdfs:///x"),
        ("hdfs:/x", "hdfs:///x"),
        ("abfss://c@acct.dfs.core.windows.net/x", "abfs://c@acct.dfs.core.windows.net/x"),
        ("wasbs://C@ACCT.blob.core.windows.net/x/", "abfs://c@acct.dfs.core.windows.net/x"),
        ("https://acct.blob.core.windows.net/c/x", "abfs://c@acct.dfs.core.windows.net/x"),
        ("https://acct.dfs.core.windows.net:443/c//x", "abfs://c@acct.dfs.core.windows.net/x"),
        ("dbfs:/x//a/", "dbfs:/x/a"),
        ("dbfs:///x/a", "dbfs:/x/a"),
        ("https://example.org/c/x", "https://example.org/c/x"),
        ("lake.orders", "lake.orders"),
        ("orders", "orders"),
        ("", ""),
    ],
)
def test_every_spelling_of_a_place_becomes_the_same(place: str, spelled: str) -> None:
    assert spell_place(place) == spelled
    assert spell_place(spelled) == spelled


@pytest.mark.parametrize(
    ("place", "other"),
    [
        ("abfss://c@acct.dfs.core.windows.net/x", "abfss://c@other.dfs.core.windows.net/x"),
        ("abfss://c@acct.dfs.core.windows.net/x", "abfss://d@acct.dfs.core.windows.net/x"),
        ("hdfs://nn/x", "hdfs://nn:9000/x"),
        ("s3://lake/x", "gs://lake/x"),
        ("s3://lake/x", "s3://lake/X"),
    ],
)
def test_other_places_stay_apart(place: str, other: str) -> None:
    assert spell_place(place) != spell_place(other)
