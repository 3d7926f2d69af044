"""Which places are opened: storage, and nothing else that fsspec could reach from here."""

import errno
from pathlib import Path

import pytest

from recovery.checkpoints import access, remote
from recovery.checkpoints.storage import Store
from recovery.errors import Refused, Unreachable
from recovery.pipelines.workspace_asking import _look_at_storage
from recovery.sources.live.delta import table_id
from tests.refusals import refused

PLACES_OF_NO_STORAGE = (
    "http://127.0.0.1:9/x",
    "https://8.8.8.8/x",
    "HTTP://127.0.0.1:9/x",
    "webhdfs://127.0.0.1:9/x",
    "ftp://127.0.0.1/x",
    "sftp://127.0.0.1/x",
    "jupyter://x",
    "dbfs://x/y",
    "github://owner:name@main/x",
    "local:///x",
    "reference://x",
    "simplecache::http://127.0.0.1:9/x",
    "reference::http://127.0.0.1:9/x",
    "zip://a::http://127.0.0.1:9/x",
    "file:///x::http://127.0.0.1:9/x",
    "s3://bucket/x::file:///x",
    "/x::http",
    "data:,text",
    "nosuch://x",
)


@pytest.mark.parametrize("location", PLACES_OF_NO_STORAGE)
def test_a_place_that_is_no_storage_is_refused_before_anything_is_asked(
    location: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(remote.fsspec.core, "url_to_fs", lambda *given, **words: asked.append(given))
    with pytest.raises(Refused) as refused:
        Store.open(location)
    assert refused.value.code == "storage_scheme"
    assert isinstance(_look_at_storage(location), str), "a pipeline's storage root is held to the same"
    assert asked == []


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_a_path_of_this_machine_is_opened_in_every_form(form: str, tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    assert [e.name for e in Store.open(form.format(tmp_path)).entries()] == ["offsets"]


@pytest.mark.parametrize("error", [TypeError("setup"), RuntimeError("setup"), OSError(errno.EIO, "setup")])
def test_a_client_that_cannot_be_set_up_is_storage_that_does_not_answer(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*given: object, **words: object) -> None:
        raise error

    monkeypatch.setattr(remote.fsspec.core, "url_to_fs", failing)
    with pytest.raises(Unreachable):
        Store.open("gs://bucket/x")


@pytest.mark.parametrize("location", ["http://127.0.0.1:9/x", "nosuch://x", "/nosuch"])
def test_a_table_at_such_a_place_has_no_id(location: str) -> None:
    assert table_id(location) is None


@pytest.mark.parametrize(
    ("place", "root"),
    [
        ("hdfs://nn:8020/prod/x", "hdfs://nn/prod"),
        ("hdfs://NN/prod//x", "hdfs://nn:8020/prod/"),
        ("hdfs://nn/./prod/x", "hdfs://nn/prod"),
        ("hdfs:///prod/x", "hdfs://nn/prod"),
        ("hdfs://nn/prod/x", "hdfs:///prod"),
        ("s3n://lake//prod/./x", "s3a://lake/prod"),
        ("wasbs://c@acct.blob.core.windows.net/prod", "abfss://c@acct.dfs.core.windows.net/prod"),
        ("abfs://c/prod/x", "abfss://c@acct.dfs.core.windows.net/prod"),
        ("az://c/prod/x", "wasbs://c@acct.blob.core.windows.net/prod"),
    ],
)
def test_another_spelling_does_not_lead_around_a_folder_that_is_out_of_sight(place: str, root: str) -> None:
    assert access.is_below(place, root)


@pytest.mark.parametrize(
    ("place", "root"),
    [
        ("hdfs://nn/product", "hdfs://nn/prod"),
        ("hdfs://other/prod", "hdfs://nn/prod"),
        ("hdfs://nn:9000/prod", "hdfs://nn/prod"),
        ("abfss://c@other.dfs.core.windows.net/prod", "abfss://c@acct.dfs.core.windows.net/prod"),
        ("abfs://d/prod", "abfss://c@acct.dfs.core.windows.net/prod"),
        ("s3://lake/prod", "gs://lake/prod"),
        ("/prod", "s3://lake/prod"),
    ],
)
def test_a_place_beside_a_folder_is_not_below_it(place: str, root: str) -> None:
    assert not access.is_below(place, root)


@pytest.mark.parametrize(
    ("place", "root"),
    [
        ("hdfs://nn:8020/x/a", "hdfs://nn/x"),
        ("wasbs://c@acct.blob.core.windows.net/x", "abfss://c@acct.dfs.core.windows.net/x"),
    ],
)
def test_a_root_holds_for_every_spelling_of_its_store(place: str, root: str) -> None:
    access.check_roots(place, [root])
    assert access.read_place(place).service == access.read_place(root).service


def test_a_key_with_an_empty_part_is_not_below_the_root_that_it_resembles() -> None:
    with refused("storage_root"):
        access.check_roots("s3://lake/a//b/x", ["s3://lake/a/b"])
