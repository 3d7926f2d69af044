"""A server that runs the pipelines of some environments alone: it refuses all others, wherever they are named."""

from pathlib import Path
from typing import Any

import pytest

from recovery.errors import WrongUse
from recovery.server import instance as instances
from recovery.server.confinement import PathAccess
from recovery.server.instance import ServerInstance, ServerPlace, set_current
from recovery.server.models import Pipeline
from recovery.server.problems import ApiProblem
from recovery.server.process import check_hidden
from recovery.server.updates import start_update
from tests.unit.server.api import Asker

pytestmark = pytest.mark.django_db(databases=["default", "pipelines"])

QUESTION = {"question": "places", "request": {"tables": []}, "seconds": 5}


def serve(asker: Asker, *environments: str, hidden: tuple[Path, ...] = ()) -> None:
    """The server runs the pipelines of these environments."""
    set_current(ServerInstance(asker.home, ServerPlace(hidden=hidden), environments=environments))


@pytest.mark.parametrize(
    ("environments", "tags", "kept"),
    [
        ((), None, None),
        ((), {"environment": "anything"}, {"environment": "anything"}),
        (("production",), None, {"environment": "production"}),
        (("production",), {"team": "a", "environment": ""}, {"team": "a", "environment": "production"}),
        (("development", "staging"), {"team": "a"}, {"team": "a", "environment": "development"}),
        (("development", "staging"), {"environment": "staging"}, {"environment": "staging"}),
    ],
)
def test_a_pipeline_without_a_tag_is_of_the_first_environment_and_says_so(
    asker: Asker, environments: tuple[str, ...], tags: dict[str, str] | None, kept: dict[str, str] | None
) -> None:
    serve(asker, *environments)
    made = asker.make(**({"tags": tags} if tags is not None else {}))
    assert asker.send("GET", f"/pipelines/{made.pk}").body["spec"].get("tags") == kept


@pytest.mark.parametrize("tag", ["production", "Development", "dev", "x" * 90])
def test_a_pipeline_of_another_environment_is_neither_made_nor_kept_nor_started(
    asker: Asker, tag: str
) -> None:
    serve(asker, "development")
    other = {"name": "p", "tags": {"environment": tag}}
    refused = asker.send("POST", "/pipelines", other)
    assert (refused.status, refused.code) == (400, "INVALID_PARAMETER_VALUE")
    assert asker.send("POST", "/pipelines", {**other, "dry_run": True}).status == 400
    assert not Pipeline.objects.exists()

    made = asker.make()
    assert asker.send("PUT", f"/pipelines/{made.pk}", other).status == 400
    made.refresh_from_db()
    assert made.spec["tags"] == {"environment": "development"}


@pytest.mark.parametrize("tags", [{}, {"environment": "production"}])
def test_what_was_saved_before_the_server_had_an_environment_is_not_started(
    asker: Asker, tags: dict[str, str]
) -> None:
    made = asker.make(tags=tags)
    serve(asker, "development")
    asked = asker.send("POST", f"/pipelines/{made.pk}/updates", {})
    assert (asked.status, asked.code) == (400, "INVALID_PARAMETER_VALUE")
    assert not made.updates.exists()

    if not tags:  # saved again it is this server's
        assert asker.send("PUT", f"/pipelines/{made.pk}", {"name": "p"}).status == 200
        made.refresh_from_db()
        with pytest.raises(ApiProblem) as no_spark:
            start_update(instances.current_instance(), made, {}, user="ada")
        assert no_spark.value.status == 500


@pytest.mark.parametrize(
    ("environments", "said", "status"),
    [
        (("production",), {"environment": "development"}, 403),
        (("production",), {}, 403),
        (("production",), {"environment": None}, 403),
        (("production",), {"environment": ["production"]}, 400),
        (("production",), {"environment": "production"}, 500),  # there is no Spark in this test
        (("development", "staging"), {"environment": "staging"}, 500),
        ((), {"environment": "development"}, 500),
        ((), {}, 500),
    ],
)
def test_a_question_about_another_environment_is_not_answered(
    asker: Asker, environments: tuple[str, ...], said: dict[str, Any], status: int
) -> None:
    serve(asker, *environments)
    instances.current_instance().connect_to = no_spark  # type: ignore[method-assign]
    asked = asker.send("POST", "/x-reprise/questions", QUESTION | said)
    assert asked.status == status
    if status == 403:
        assert asked.code == "PERMISSION_DENIED"


def no_spark(name: str) -> str:
    raise ApiProblem(500, "INTERNAL_ERROR", "There is no Spark.")


def test_what_belongs_to_another_environment_is_hidden_and_never_storage(
    asker: Asker, tmp_path_factory: pytest.TempPathFactory
) -> None:
    theirs, ours = tmp_path_factory.mktemp("production"), tmp_path_factory.mktemp("development")
    (ours / "way").symlink_to(theirs)
    serve(asker, "development", hidden=(theirs,))
    sight = instances.current_instance().place_of_data().sights()
    assert (sight(theirs / "new"), sight(ours / "new")) == (PathAccess.HIDDEN, PathAccess.WRITABLE)

    for storage in (theirs, theirs / "deep", ours / "way", ours / "way/deep"):
        assert asker.send("POST", "/pipelines", {"name": "p", "storage": str(storage)}).status == 400
        question = {**QUESTION, "request": {"scratch": f"{storage}/x"}, "environment": "development"}
        assert asker.send("POST", "/x-reprise/questions", question).status == 403
    assert asker.make(storage=str(ours / "own")).spec["storage"] == f"file:{ours}/own"
    serve(asker, "development")
    assert asker.make(name="q", storage=str(theirs)).spec["storage"] == f"file:{theirs}"


def test_a_home_below_a_hidden_folder_keeps_its_own_data(tmp_path: Path) -> None:
    (home := tmp_path / "environments/development").mkdir(parents=True)
    for place in (home / "storage", tmp_path / "storage", tmp_path / "environments/production/storage"):
        place.mkdir(parents=True)
    sight = ServerInstance(home, ServerPlace(hidden=(tmp_path,))).place_of_data().sights()
    assert sight(home / "storage/p") is PathAccess.WRITABLE
    for hidden in (
        "audit.key",
        "storage/p",
        "environments/production/storage/p",
        "environments/development/x",
    ):
        assert sight(tmp_path / hidden) is PathAccess.HIDDEN


@pytest.mark.parametrize("case", ["absent", "relative", "shared", "shared by a link"])
def test_a_folder_that_could_not_be_hidden_ends_the_start(tmp_path: Path, case: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    place = {
        "absent": ServerPlace(hidden=(tmp_path / "later",)),
        "relative": ServerPlace(hidden=(Path("data"),)),
        "shared": ServerPlace(data_roots=(tmp_path / "data",), hidden=(tmp_path / "data",)),
        "shared by a link": ServerPlace(data_roots=(tmp_path / "link",), hidden=(tmp_path / "data",)),
    }[case]
    with pytest.raises(WrongUse):
        check_hidden(place)
    check_hidden(ServerPlace(data_roots=(tmp_path,), hidden=(tmp_path / "data",)))
