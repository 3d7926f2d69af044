"""Workspaces: secrets by reference, registration by the right people."""

from pathlib import Path

import pytest

from recovery.errors import Denied, RepriseError, Unreachable, WrongUse
from recovery.models import AuditEntry, Workspace
from recovery.people.roles import SYSTEM, Actor, Role
from recovery.pipelines.actions import register_workspace
from recovery.pipelines.workspaces import client_for, questions_service, secret

REFS = [
    *("file:/nowhere/at/all", "file:{empty}", "file:{binary}", "file:{folder}"),
    *("env:NOT_SET", "env:", "file:", "rp_123", ""),
]


def test_a_secret_comes_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t").write_text(" rp_1 \n")
    monkeypatch.setenv("SOME_TOKEN", "rp_2")
    assert secret(f"file:{tmp_path}/t") == "rp_1"
    assert secret("env:SOME_TOKEN") == "rp_2"


@pytest.mark.parametrize("ref", REFS)
def test_a_missing_secret_is_said_without_its_value(tmp_path: Path, ref: str) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    ref = ref.format(empty=tmp_path / "empty", binary=tmp_path / "binary", folder=tmp_path)
    with pytest.raises(WrongUse) as caught:
        secret(ref)
    assert caught.value.sentence.endswith((".", "?"))
    assert "rp_123" not in caught.value.sentence


def register(**changes: str) -> Workspace:
    wanted = {
        "name": "here", "url": "http://127.0.0.1:9/", "token_ref": "env:T", "questions_url": "http://127.0.0.1:9",
        "environment": "development",
    } | changes  # fmt: skip
    return register_workspace(by=SYSTEM, **wanted)


@pytest.mark.django_db
def test_a_workspace_is_made_then_changed_then_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    assert register().url == "http://127.0.0.1:9"
    Workspace.objects.update(poll_error="away")
    changed = register(url="http://127.0.0.1:10", questions_url="http://127.0.0.1:10/")
    assert (Workspace.objects.count(), changed.url, changed.poll_error) == (1, "http://127.0.0.1:10", "")
    register(url="http://127.0.0.1:10", questions_url="http://127.0.0.1:10")
    rows = list(AuditEntry.objects.order_by("seq").values_list("outcome", "before__url", "after__url"))
    assert rows == [
        ("done", None, "http://127.0.0.1:9"),
        ("done", "http://127.0.0.1:9", "http://127.0.0.1:10"),
    ]
    monkeypatch.setenv("T", "rp_x")
    assert repr(client_for(changed)) == "PipelinesClient(http://127.0.0.1:10)"
    service = questions_service(changed, "staging")
    assert (service.url, service.token, service.spark) == ("http://127.0.0.1:10", "rp_x", "")
    assert service.environment == "staging"
    with pytest.raises(Unreachable) as refused:
        questions_service(register(name="other", questions_url=""), "staging")
    assert refused.value.code == "no_questions"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "wrong",
    [
        {"name": " "},
        {"url": "ftp://x"},
        {"url": "http://"},
        {"url": "http://u:p@x"},
        {"token_ref": "rp_secret"},
        {"token_ref": ""},
        {"questions_url": "sc://x"},
        {"environment": "live"},
    ],
)
def test_a_wrong_workspace_is_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(RepriseError):
        register(**wrong)
    assert not Workspace.objects.exists()
    assert AuditEntry.objects.get().outcome == "failed"


@pytest.mark.django_db
@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESPONDER, Role.APPROVER, Role.AUDITOR])
def test_only_an_admin_registers_workspaces(role: Role) -> None:
    with pytest.raises(Denied):
        register_workspace(
            name="x", url="http://x", token_ref="env:T", environment="staging", by=Actor(name="p", role=role)
        )
    assert AuditEntry.objects.get().outcome == "denied"


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["new", ".", "..", "a/b", " ", "x" * 81])
def test_a_workspace_has_no_name_that_is_an_address_of_something_else(name: str) -> None:
    with pytest.raises(WrongUse) as refused:
        register(name=name)
    assert refused.value.code == "workspace_name"
