"""The patch step: what is saved of edited source, and what is refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.test import Client

from recovery.models import Recovery, Workspace
from recovery.workflow import broker
from tests import factories as f
from tests.pages import asked, parse, refusal
from tests.pipelines_api import Api, serve
from tests.unit.pages.reading import text

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wake-ups are sent on commit, which never comes in these tests; only that the broker is there is asked."""
    monkeypatch.setattr(broker, "check", lambda: None)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """The Pipelines API of workspace dev-eu."""
    (tmp_path / "token").write_text("t")
    with serve() as api:
        Workspace.objects.create(name="dev-eu", url=api.url, token_ref=f"file:{tmp_path}/token")
        yield api


def edited(recovery: Recovery, client: Client, new: str, act: str = "save") -> int:
    return client.post(
        f"/recoveries/{recovery.pk}/patch",
        {"act": act, "path.0": f.PATH, "text.0": new.replace("\n", "\r\n"), "path.1": f.SCHEMA_PATH,
         "text.1": 'BASE = "/data/in"\r\nSCHEMA = "customer_id LONG, sequence_num LONG"\r\n'},
    ).status_code  # fmt: skip


def test_only_what_differs_is_saved_with_the_line_ends_of_source_files(responder: Client, api: Api) -> None:
    recovery = f.at_patch()

    assert edited(recovery, responder, f.CODE + "# seen\n") == 302

    recovery.refresh_from_db()
    assert recovery.choices["patch"] == {f.PATH: f.CODE + "# seen\n"}
    page = text(responder, f"/recoveries/{recovery.pk}/patch")
    assert "# seen" in page
    assert parse(page).one("changes-the-code")


def test_a_file_with_windows_line_ends_is_no_patch_until_a_line_of_it_is_edited(
    responder: Client, api: Api
) -> None:
    api.source[f.PATH] = f.CODE.replace("\n", "\r\n")
    recovery = f.at_patch()

    assert edited(recovery, responder, f.CODE) == 302
    recovery.refresh_from_db()
    assert recovery.choices["patch"] == {}

    edited(recovery, responder, f.CODE + "# seen\n")
    recovery.refresh_from_db()
    assert list(recovery.choices["patch"]) == [f.PATH]
    (written,) = asked(responder, f"/recoveries/{recovery.pk}/patch").all("li", data_code="info")
    assert "1 line added" in written.text


def test_code_that_does_not_parse_is_refused_with_its_line_and_is_still_in_the_editor(
    responder: Client, api: Api
) -> None:
    recovery = f.at_patch()

    answer = responder.post(
        f"/recoveries/{recovery.pk}/patch",
        {"act": "keep", "path.0": f.PATH, "text.0": "def broken(:\r\n    pass\r\n"},
    )

    assert (answer.status_code, refusal(answer)) == (422, "does_not_parse")
    page = answer.content.decode()
    assert "def broken(:" in page
    recovery.refresh_from_db()
    assert "patch" not in recovery.choices


def test_a_file_that_the_workspace_does_not_have_cannot_be_slipped_in(responder: Client, api: Api) -> None:
    recovery = f.at_patch()

    responder.post(
        f"/recoveries/{recovery.pk}/patch", {"path.0": "/Workspace/elsewhere.py", "text.0": "x = 1"}
    )

    recovery.refresh_from_db()
    assert recovery.choices["patch"] == {}


def test_keeping_the_code_leads_to_the_review(responder: Client, api: Api) -> None:
    recovery = f.at_patch()

    assert edited(recovery, responder, f.CODE, act="keep") == 302

    recovery.refresh_from_db()
    assert recovery.choices["patch"] == {}
    assert responder.get(f"/recoveries/{recovery.pk}")["Location"].endswith("/review")


def test_validating_saves_first_and_only_its_panel_is_polled(responder: Client, api: Api) -> None:
    recovery = f.at_patch()

    edited(recovery, responder, f.CODE + "# seen\n", act="validate")

    recovery.refresh_from_db()
    assert recovery.choices["patch"]
    assert recovery.choices["validation"]["status"] == "working"
    page = text(responder, f"/recoveries/{recovery.pk}/patch")
    assert page.count("hx-trigger") == 1
    panel = text(responder, f"/recoveries/{recovery.pk}/patch?part=validation")
    assert "Being validated" in panel
    assert "<textarea" not in panel
