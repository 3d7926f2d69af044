"""The page on which an error text is pasted: diagnosed, bounded, guarded, and kept nowhere."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, router
from django.test import Client
from django.urls import reverse

from console.pages.error_text import LARGEST_TEXT
from recovery.models import Workspace
from tests import factories
from tests.checkpoint_builder import Built, put
from tests.unit.diagnosis.messages import INCIDENT
from tests.unit.diagnosis.public_texts import CAPTURED, IDS
from tests.unit.pages.reading import plain

pytestmark = pytest.mark.django_db
LOST = CAPTURED.format(
    ids=IDS, reason="Partition a-0's offset was changed from 9 to 3, some data may have been missed."
)
MISMATCH = CAPTURED.format(ids=IDS, reason=INCIDENT)


@pytest.fixture
def viewer(client: Client) -> Client:
    client.force_login(factories.person("viewer"))
    return client


def paste(client: Client, text: str, checkpoint: str = "") -> Any:
    return client.post(reverse("error-text"), {"text": text, "checkpoint": checkpoint})


def counted() -> dict[str, int]:
    """Rows of every table of the console."""
    models = [m for m in apps.get_models() if router.db_for_read(m) == DEFAULT_DB_ALIAS]
    return {m.__name__: m._default_manager.count() for m in models}


def value(answer: Any, code: str) -> str | None:
    found = re.search(rf'data-code="{code}" data-value="([^"]*)"', answer.content.decode())
    return found[1] if found else None


def test_a_viewer_gets_the_diagnosis_of_a_text_and_the_box_keeps_it(viewer: Client) -> None:
    answer = paste(viewer, MISMATCH)
    assert answer.status_code == 200
    assert value(answer, "diagnosis") == "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA"
    page = answer.content.decode()
    assert all(f'data-code="advice-{name}"' in page for name in ("continue", "revert", "full-refresh"))
    assert "OperatorName: dedupe" in page
    assert "Start offset" not in page


def test_what_is_not_a_failure_is_called_that_and_nothing_is_advised(viewer: Client) -> None:
    answer = paste(viewer, "all is well")
    assert value(answer, "diagnosis") == "no-failure-recognised"
    assert 'class="ladder"' not in answer.content.decode()


def test_nothing_of_it_is_stored_or_audited(viewer: Client) -> None:
    viewer.get(reverse("error-text"))
    before = counted()
    paste(viewer, LOST)
    paste(viewer, "x" * (LARGEST_TEXT + 1))
    paste(viewer, LOST, "/etc")
    assert counted() == before


@pytest.mark.parametrize(("size", "status"), [(LARGEST_TEXT, 200), (LARGEST_TEXT + 1, 422), (3_000_000, 413)])
def test_a_text_beyond_the_bound_is_refused_in_a_sentence(viewer: Client, size: int, status: int) -> None:
    answer = paste(viewer, "x" * size)
    assert answer.status_code == status
    assert status == 200 or "larger than 2 MB" in plain(answer)


def test_an_empty_text_and_an_endless_path_are_refused(viewer: Client) -> None:
    assert paste(viewer, " \n").status_code == 422
    assert paste(viewer, LOST, "/a" * 2_000).status_code == 422


def test_a_checkpoint_that_is_named_is_read_and_its_damage_is_shown(
    responder: Client, tmp_path: Path
) -> None:
    Built(tmp_path / "ck").write()
    put(tmp_path / "ck/sources/0/1", "v1")
    answer = paste(responder, LOST, str(tmp_path / "ck"))
    assert value(answer, "diagnosis") == "KAFKA_DATA_LOSS"
    assert value(answer, "checkpoint") == "structured-streaming"
    assert "sources/0/1" in plain(answer)


def test_who_only_looks_names_no_place_that_no_root_bounds(viewer: Client, tmp_path: Path) -> None:
    Built(tmp_path / "ck").write()
    answer = paste(viewer, LOST, str(tmp_path / "ck"))
    assert value(answer, "checkpoint-not-read") == "storage_without_roots"
    assert value(answer, "diagnosis") == "KAFKA_DATA_LOSS"


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("/etc", "storage_hidden"), ("{home}", "storage_hidden"), ("~/.ssh", "storage_hidden"),
        ("relative/path", "storage_address"), ("http://127.0.0.1/x", "storage_scheme"),
        ("hdfs://10.0.0.1:8020/x", "storage_host"), ("simplecache::s3://b/x", "storage_scheme"),
    ],
)  # fmt: skip
def test_a_place_that_is_not_opened_is_said_and_the_text_is_diagnosed_all_the_same(
    responder: Client, settings: Any, place: str, code: str
) -> None:
    named = place.format(home=settings.REPRISE_HOME).replace("~", str(Path.home()))
    answer = paste(responder, LOST, named)
    assert value(answer, "checkpoint-not-read") == code
    assert value(answer, "diagnosis") == "KAFKA_DATA_LOSS"


def test_where_every_workspace_has_roots_only_what_lies_below_one_is_read(
    viewer: Client, tmp_path: Path
) -> None:
    Built(tmp_path / "in/ck").write()
    Built(tmp_path / "out/ck").write()
    place = factories.workspace()
    Workspace.objects.filter(pk=place.pk).update(roots=[str(tmp_path / "in")])
    assert value(paste(viewer, LOST, str(tmp_path / "in/ck")), "checkpoint-not-read") is None
    assert value(paste(viewer, LOST, str(tmp_path / "out/ck")), "checkpoint-not-read") == "storage_root"
    factories.workspace("another")
    assert (
        value(paste(viewer, LOST, str(tmp_path / "out/ck")), "checkpoint-not-read") == "storage_without_roots"
    )


def test_a_checkpoint_in_an_environment_that_one_may_not_see_stays_shut(
    client: Client, tmp_path: Path
) -> None:
    from recovery.models import RoleIn

    Built(tmp_path / "prod/ck").write()
    made = factories.pipeline(name="main", environment="production")
    made.spec = {**made.spec, "storage": f"file:{tmp_path}/prod"}
    made.save()
    user = factories.person("responder")
    client.force_login(user)
    (tmp_path / "way").symlink_to(tmp_path / "prod")
    places = (str(tmp_path / "prod/ck"), f"file://{tmp_path}/prod/ck", str(tmp_path / "way/ck"))
    assert [value(paste(client, LOST, p), "checkpoint-not-read") for p in places] == [None] * 3
    RoleIn.objects.create(person=user.person, environment="production", role="none")  # type: ignore[attr-defined]
    assert [value(paste(client, LOST, p), "checkpoint-not-read") for p in places] == ["storage_root"] * 3


def test_the_box_is_reached_from_the_list_and_from_the_search(viewer: Client) -> None:
    link = f'href="{reverse("error-text")}"'
    for page in ("/", "/search", "/search?q=nothing-like-this"):
        assert link in viewer.get(page).content.decode(), page
    factories.workspace()
    assert viewer.get("/").content.decode().count(link) == 2


def test_what_is_pasted_is_text_on_the_page_whatever_it_holds(viewer: Client) -> None:
    answer = paste(viewer, "</textarea><script>alert(1)</script>" + LOST, "<b>x")
    assert b"<script>alert" not in answer.content
