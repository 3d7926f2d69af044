"""The demo's people: made once, kept, and made whole again after a crash at any point."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User

from console.supervisor import stages
from recovery.errors import WrongUse
from recovery.models import Token, Workspace
from recovery.people.actions import actor_for_token, revoke_token
from recovery.people.first import make_first_administrator
from recovery.people.roles import Actor, Role
from tests.refusals import refused

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose API server has just said where it listens."""
    monkeypatch.setattr(settings, "REPRISE_HOME", tmp_path)
    (tmp_path / "pipelines.json").write_text('{"url": "http://127.0.0.1:4444"}')
    return tmp_path


def kept(home: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home / "people.json").read_text())
    return found


def test_everybody_gets_a_role_a_password_and_a_token_that_work(files: Path) -> None:
    stages.prepare_people()

    people = kept(files)
    assert {name: who["role"] for name, who in people.items()} == stages.PEOPLE
    assert (files / "people.json").stat().st_mode & 0o777 == 0o600
    for name, who in people.items():
        assert User.objects.get(username=name).check_password(who["password"])
        actor = actor_for_token(who["token"], via="command")
        assert (actor.name, actor.role) == (name, Role(who["role"]))


def test_the_workspace_is_registered_with_references_and_no_secret(files: Path) -> None:
    stages.prepare_people()

    workspace = Workspace.objects.get(name="demo")
    assert workspace.url == "http://127.0.0.1:4444"
    assert workspace.environment == "development"
    assert workspace.token_ref == f"file:{files / 'pipelines.token'}"
    assert workspace.questions_url == workspace.url


def test_a_second_start_changes_nothing(files: Path) -> None:
    stages.prepare_people()
    before, tokens = kept(files), Token.objects.count()

    stages.prepare_people()

    assert kept(files) == before
    assert Token.objects.count() == tokens


def test_a_lost_file_makes_new_passwords_and_tokens_for_the_same_people(files: Path) -> None:
    stages.prepare_people()
    before = kept(files)
    (files / "people.json").unlink()

    stages.prepare_people()

    after = kept(files)
    assert all(after[name]["password"] != who["password"] for name, who in before.items())
    assert User.objects.count() == len(stages.PEOPLE)
    assert User.objects.get(username="admin").check_password(after["admin"]["password"])


def test_a_withdrawn_token_is_replaced(files: Path) -> None:
    stages.prepare_people()
    before = kept(files)["viewer"]["token"]
    viewer = User.objects.get(username="viewer")
    revoke_token(token=viewer.tokens.get(), by=Actor(name="viewer", role=Role.VIEWER, user_id=viewer.pk))

    stages.prepare_people()

    after = kept(files)["viewer"]["token"]
    assert after != before
    assert actor_for_token(after, via="command").name == "viewer"


@pytest.mark.parametrize("missing", ["token", "password"])
def test_a_crash_between_two_writes_is_made_good(files: Path, missing: str) -> None:
    stages.prepare_people()
    people = kept(files)
    del people["responder"][missing]
    (files / "people.json").write_text(json.dumps(people))

    stages.prepare_people()

    responder = kept(files)["responder"]
    assert User.objects.get(username="responder").check_password(responder["password"])
    assert actor_for_token(responder["token"], via="command").name == "responder"


def begin(monkeypatch: pytest.MonkeyPatch, **changes: str) -> None:
    """`prepare instance` with these settings."""
    wanted = {"admin_name": "root", "admin_password": "correct horse battery", **changes}
    monkeypatch.setattr(settings, "ENV", settings.ENV.model_copy(update=wanted))
    stages.prepare_instance()


def test_an_instance_begins_with_one_administrator_and_in_production(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(monkeypatch)
    admin = User.objects.get()
    assert (admin.username, admin.person.role) == ("root", "admin")
    assert admin.check_password("correct horse battery")
    workspace = Workspace.objects.get()
    assert (workspace.url, workspace.environment) == ("http://127.0.0.1:4444", "production")
    assert not (files / "people.json").exists()
    assert Token.objects.count() == 0


def test_what_people_set_since_outlives_the_next_start(monkeypatch: pytest.MonkeyPatch) -> None:
    begin(monkeypatch)
    User.objects.get().set_password("another")
    Workspace.objects.update(environment="staging", name="ours")
    begin(monkeypatch, admin_name="somebody", admin_password="")
    assert [user.username for user in User.objects.all()] == ["root"]
    assert [(w.name, w.environment) for w in Workspace.objects.all()] == [("ours", "staging")]


@pytest.mark.parametrize(
    "wrong", [{"admin_password": ""}, {"admin_password": "x"}, {"pipelines_environment": "n/a"}]
)
def test_a_setting_that_is_missing_or_not_good_is_refused(
    monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str]
) -> None:
    with pytest.raises(WrongUse):
        begin(monkeypatch, **wrong)


def test_there_is_one_first_administrator(monkeypatch: pytest.MonkeyPatch) -> None:
    assert make_first_administrator(name="root", password="correct horse battery")
    assert not make_first_administrator(name="root", password="other horse battery")
    assert User.objects.get().check_password("correct horse battery")
    with refused("administrator_exists"):
        make_first_administrator(name="second", password="correct horse battery")


def test_each_server_of_an_environment_has_a_workspace_in_it_with_a_token_of_its_own(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = files / "environments/production"
    place.mkdir(parents=True)
    (place / "pipelines.json").write_text('{"url": "http://127.0.0.1:5555"}')
    monkeypatch.setattr(settings, "ENV", settings.ENV.model_copy(update={"own_drivers": "production"}))
    stages.prepare_people()

    own = Workspace.objects.get(name="demo-production")
    assert (own.url, own.questions_url) == ("http://127.0.0.1:5555",) * 2
    assert (own.environment, own.token_ref) == ("production", f"file:{place}/pipelines.token")
    assert Workspace.objects.get(name="demo").environment == "development"


def test_the_server_of_another_environment_is_registered_beside_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begin(monkeypatch, pipelines_url="http://127.0.0.1:1")
    begin(monkeypatch, pipelines_url="http://127.0.0.1:2", pipelines_environment="development")
    begin(monkeypatch, pipelines_url="http://127.0.0.1:2", pipelines_environment="development")
    assert list(Workspace.objects.order_by("pk").values_list("name", "environment", "url")) == [
        ("pipelines", "production", "http://127.0.0.1:1"),
        ("pipelines-development", "development", "http://127.0.0.1:2"),
    ]
