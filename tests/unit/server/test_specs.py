"""Pipeline settings: what is filled in, what is refused."""

from pathlib import Path
from typing import Any

import pytest

from recovery.server.fields import CREATE, check_fields
from recovery.server.problems import ApiProblem
from recovery.server.specs import database_of, read_spec, root_of

HOME = Path("/data/home")


def read(**body: Any) -> dict[str, Any]:
    check_fields({"name": "p"} | body, CREATE)
    return read_spec({"name": "p"} | body, pipeline_id="P", home=HOME)


def test_what_is_not_said_is_filled_in() -> None:
    spec = read()
    assert (spec["catalog"], spec["schema"], spec["storage"]) == (
        "spark_catalog",
        "default",
        "file:/data/home/storage/P",
    )
    assert (spec["continuous"], spec["development"], spec["libraries"]) == (False, False, [])


def test_what_is_known_is_kept_and_what_is_of_the_request_alone_is_not() -> None:
    spec = read(tags={"environment": "production"}, channel="PREVIEW", allow_duplicate_names=True)
    assert (spec["tags"], spec["channel"]) == ({"environment": "production"}, "PREVIEW")
    assert "allow_duplicate_names" not in spec


@pytest.mark.parametrize(
    ("given", "kept"), [("/a/b", "file:/a/b"), ("s3a://bucket/x/", "s3a://bucket/x"), ("file:/a", "file:/a")]
)
def test_storage_is_a_uri(given: str, kept: str) -> None:
    assert read(storage=given)["storage"] == kept


def test_configuration_is_text() -> None:
    assert read(configuration={"a": 1, "b": True, "c": "x"})["configuration"] == {
        "a": "1",
        "b": "true",
        "c": "x",
    }


def test_the_older_word_for_schema_works() -> None:
    spec = read(target="sales")
    assert database_of(spec) == "sales"
    assert "schema" not in spec


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"name": " "}, "needs a name"),
        ({"name": 3}, "name must be text"),
        ({"continuous": True}, "Continuous"),
        ({"schema": "a", "target": "b"}, "not both"),
        ({"schema": "a.b"}, "letters, digits"),
        ({"catalog": "a`"}, "letters, digits"),
        ({"storage": "relative"}, "absolute URI"),
        ({"storage": "file:/a b"}, "Spark would write its checkpoints elsewhere"),
        ({"root_path": "relative"}, "workspace path"),
        ({"libraries": {"file": 1}}, "must be a list"),
        ({"libraries": [{"maven": {}}]}, "Each library"),
        ({"libraries": [{"file": {"path": ""}}]}, "Each library"),
        ({"configuration": []}, "configuration"),
        ({"tags": []}, "tags"),
    ],
)
def test_what_cannot_be_is_refused_with_its_reason(body: dict[str, Any], words: str) -> None:
    with pytest.raises(ApiProblem, match=words):
        read(**body)


@pytest.mark.parametrize(
    ("libraries", "root_path", "root"),
    [
        ([], None, "/"),
        ([{"file": {"path": "/Users/x/a.py"}}], None, "/Users/x"),
        ([{"glob": {"include": "/Users/x/defs/**"}}], None, "/Users/x/defs"),
        ([{"file": {"path": "/Users/x/a.py"}}], "/Users/x/", "/Users/x"),
    ],
)
def test_the_root_of_imports_is_found(libraries: list[Any], root_path: str | None, root: str) -> None:
    assert root_of({"libraries": libraries, "root_path": root_path}) == root
