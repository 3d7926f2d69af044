"""A workspace is added, changed, switched off and removed: by the right people, audited, no secret in the open."""

from pathlib import Path
from typing import Any

import pytest

from recovery import reach
from recovery.checkpoints.storage import Store
from recovery.encryption import decrypted, encrypted
from recovery.errors import Denied
from recovery.models import AuditEntry, Flow, Recovery, Workspace
from recovery.people.roles import Actor, Role
from recovery.pipelines import actions, asking, inventory
from recovery.pipelines.actions import WorkspaceDetails
from recovery.pipelines.workspace_asking import keep_test
from recovery.pipelines.workspaces import TOKEN, client_for, questions_service, token_of
from recovery.workflow.actions import open_recovery
from tests import factories
from tests.refusals import refused

pytestmark = pytest.mark.django_db
ADMIN = Actor("ada", Role.ADMIN, via="page")
RESPONDER = Actor("rob", Role.RESPONDER, via="page")
URL = "http://127.0.0.1:9"
SECRET = "dapi0123456789abcdef0123456789abcdef"


def add(name: str = "main-eu", **given: str) -> Workspace:
    values = {"url": URL, "token": SECRET, **given}
    return actions.add_workspace(name=name, given=WorkspaceDetails(**values), by=ADMIN)


def test_one_of_which_nobody_says_the_environment_is_production() -> None:
    assert add().environment == "production"
    assert Workspace._meta.get_field("environment").default == "production"


def test_a_token_that_is_entered_is_kept_encrypted_and_shown_nowhere() -> None:
    row = add()

    assert token_of(row) == decrypted(row.token_kept, TOKEN) == SECRET
    assert SECRET not in row.token_kept
    told = [str((e.before, e.after, e.says)) for e in AuditEntry.objects.all()]
    assert told
    assert not [one for one in told if SECRET in one or row.token_kept in one]
    assert SECRET not in str(actions.describe_workspace(row))


def test_a_reference_is_held_to_names_that_are_meant_for_workspaces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRISE_WORKSPACE_MAIN", SECRET)
    row = actions.add_workspace(
        name="main-eu", given=WorkspaceDetails(url=URL, token_ref="env:REPRISE_WORKSPACE_MAIN"), by=ADMIN
    )
    assert (token_of(row), row.token_kept) == (SECRET, "")
    for ref in ("env:REPRISE_SECRET_KEY", "file:/run/instance.env", "file:/run/../workspace-x", SECRET):
        with refused("reference_name"):
            actions.change_workspace(name="main-eu", given=WorkspaceDetails(token_ref=ref), by=ADMIN)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"url": "http://169.254.169.254", "token": "x"}, "outbound"),
        ({"url": URL}, "no_token"),
        ({"url": URL, "token": "x", "token_ref": "env:REPRISE_WORKSPACE_X"}, "two_secrets"),
        *(
            ({"url": URL, "token": t}, "odd_secret")
            for t in ("two words", "\u6f22\u5b57abc", "caf\xe9", "a\nb")
        ),
        ({"url": URL, "token": "x", "questions_url": "http://169.254.169.254"}, "outbound"),
        ({"url": URL, "token": "x", "questions_url": "sc://127.0.0.1:15002/;token=t"}, "wrong_use"),
        ({"url": URL, "token": "x", "questions_url": URL, "questions_token": "two words"}, "odd_secret"),
        ({"url": URL, "token": "x", "questions_url": URL, "questions_spark": "two words"}, "wrong_use"),
        (
            {"url": URL, "token": "x", "questions_url": URL, "questions_token_ref": "env:REPRISE_SECRET_KEY"},
            "reference_name",
        ),
        ({"url": URL, "token": "x", "environment": "live"}, "wrong_use"),
        ({"url": "ftp://x", "token": "x"}, "wrong_use"),
    ],
)
def test_what_cannot_be_a_workspace_is_refused(given: dict[str, str], code: str) -> None:
    with refused(code):
        actions.add_workspace(name="main-eu", given=WorkspaceDetails(**given), by=ADMIN)
    assert not Workspace.objects.exists()
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.outcome) == ("workspace.add", "failed")


@pytest.mark.parametrize("odd", ["line-one\nhunter22", "hunter22 two", "\u6f22hunter22", "hunter22\x7f"])
@pytest.mark.parametrize("kept", [True, False])
def test_a_token_that_cannot_be_sent_is_an_answer_that_does_not_hold_it(
    odd: str, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = add()
    monkeypatch.setenv("REPRISE_WORKSPACE_ODD", odd)
    values = (
        {"token_kept": encrypted(odd, TOKEN)}
        if kept
        else {"token_kept": "", "token_ref": "env:REPRISE_WORKSPACE_ODD"}
    )
    Workspace.objects.filter(pk=row.pk).update(**values)
    row.refresh_from_db()
    with refused("odd_secret"):
        token_of(row)
    told = keep_test(row.pk)
    inventory.refresh(workspace_id=row.pk)
    row.refresh_from_db()
    assert told is not None
    assert row.poll_error
    assert "hunter22" not in str(told.as_dict()) + row.poll_error


def test_names_and_addresses_are_there_once() -> None:
    add()
    with refused("taken"):
        add(url="http://127.0.0.1:10")
    with refused("same_address"):
        add("other", url="http://127.0.0.1:9/")


@pytest.mark.parametrize(
    ("url", "code"),
    [
        *(
            (f"http://127.0.0.1:9{path}", "wrong_use")
            for path in ("/x/..", "/.", "/#", "/?", "/%2e", "/;a", "/x//y")
        ),
        *((f"http://{host}:9", "wrong_use") for host in ("127.1", "0x7f.1")),
        *((f"http://{host}:9", "same_address") for host in ("LOCALHOST", "127.0.0.1.")),
        ("HTTP://127.0.0.1:09//", "same_address"),
    ],
)
def test_one_address_in_another_spelling_is_no_second_workspace(url: str, code: str) -> None:
    add()
    with refused(code):
        add("other", url=url)


def test_naming_a_token_that_is_in_use_sends_it_to_no_other_machine() -> None:
    ref = "file:/run/secrets/workspace-main"
    actions.add_workspace(name="main-eu", given=WorkspaceDetails(url=URL, token_ref=ref), by=ADMIN)
    add("other", url="http://127.0.0.1:11")
    for same in (ref, "file:/run/./secrets//workspace-main"):
        with refused("token_again"):
            actions.change_workspace(
                name="main-eu", given=WorkspaceDetails(url="http://127.0.0.1:10", token_ref=same), by=ADMIN
            )
        with refused("token_elsewhere"):
            actions.change_workspace(name="other", given=WorkspaceDetails(token_ref=same), by=ADMIN)
        with refused("token_elsewhere"):
            actions.add_workspace(
                name="third", given=WorkspaceDetails(url="http://127.0.0.1:12", token_ref=same), by=ADMIN
            )
    actions.change_workspace(
        name="main-eu", given=WorkspaceDetails(environment="staging", token_ref=ref), by=ADMIN
    )


def test_a_token_does_not_follow_to_another_machine() -> None:
    add(questions_url=URL)
    with refused("token_again"):
        actions.change_workspace(name="main-eu", given=WorkspaceDetails(url="http://127.0.0.1:10"), by=ADMIN)
    changed = actions.change_workspace(
        name="main-eu",
        given=WorkspaceDetails(url="http://127.0.0.1:10", token="new", environment="staging"),
        by=ADMIN,
    )
    assert (changed.url, token_of(changed), changed.environment) == ("http://127.0.0.1:10", "new", "staging")
    service = questions_service(changed, "staging")  # it is still the workspace itself, wherever that is
    assert (service.url, service.token) == (changed.url, "new")


def test_the_token_of_a_questions_service_does_not_follow_to_another_machine() -> None:
    there = "http://127.0.0.1:20"
    added = add(questions_url=there, questions_token="for-it", questions_spark="eu")
    service = questions_service(added, "staging")
    assert (service.url, service.token, service.spark) == (there, "for-it", "eu")
    with refused("token_again"):
        actions.change_workspace(
            name="main-eu", given=WorkspaceDetails(questions_url="http://127.0.0.1:21"), by=ADMIN
        )
    itself = actions.change_workspace(name="main-eu", given=WorkspaceDetails(questions_url=URL), by=ADMIN)
    assert questions_service(itself, "staging").token == SECRET
    gone = actions.change_workspace(name="main-eu", given=WorkspaceDetails(questions_url=""), by=ADMIN)
    with refused("no_questions"):
        questions_service(gone, "staging")
    without = actions.change_workspace(name="main-eu", given=WorkspaceDetails(questions_url=there), by=ADMIN)
    with refused("no_questions_token"):
        questions_service(without, "staging")


def test_a_reference_to_a_token_serves_one_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRISE_WORKSPACE_Q", "for-it")
    there, ref = "http://127.0.0.1:20", "env:REPRISE_WORKSPACE_Q"
    add(questions_url=there, questions_token_ref=ref)
    with refused("token_elsewhere"):
        add("other", url="http://127.0.0.1:11", questions_url="http://127.0.0.1:21", questions_token_ref=ref)
    with refused("token_elsewhere"):
        actions.add_workspace(
            name="other", given=WorkspaceDetails(url="http://127.0.0.1:11", token_ref=ref), by=ADMIN
        )
    shared = add("other", url="http://127.0.0.1:11", questions_url=there, questions_token_ref=ref)
    assert questions_service(shared, "staging").token == "for-it"


def test_a_switched_off_one_is_not_asked_and_its_flows_leave_the_lists(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = add()
    flow = factories.failed_flow(factories.pipeline(row))
    asked: list[Any] = []
    monkeypatch.setattr(asking, "client_for", asked.append)

    actions.switch_workspace(name="main-eu", on=False, by=ADMIN)
    inventory.refresh(workspace_id=row.pk)

    row.refresh_from_db()
    assert asked == []
    assert not Flow.objects.filter(pipeline__gone=False).exists()
    with refused("workspace_off"):
        client_for(row)
    with refused("workspace_off"):
        open_recovery(flow_id=flow.pk, by=RESPONDER)
    assert actions.switch_workspace(name="main-eu", on=True, by=ADMIN).active


def test_a_removed_one_loses_its_secrets_and_keeps_its_recoveries() -> None:
    row = add()
    recovery = factories.verified(factories.failed_flow(factories.pipeline(row)))
    Recovery.objects.filter(pk=recovery.pk).update(active=False)

    actions.remove_workspace(name="main-eu", by=ADMIN, reason="moved")

    row.refresh_from_db()
    assert (row.token_kept, row.token_ref, row.active) == ("", "", False)
    assert Recovery.objects.filter(pk=recovery.pk).exists()
    entry = AuditEntry.objects.get(action="workspace.remove")
    assert (entry.outcome, entry.reason, entry.target) == ("done", "moved", "main-eu")
    with refused("not_found"):
        actions.switch_workspace(name="main-eu", on=True, by=ADMIN)
    with refused("taken"):
        add(url="http://127.0.0.1:10")
    again = add()
    assert (again.pk, again.active) == (row.pk, True)


def test_none_leaves_while_a_recovery_is_open_there() -> None:
    row = add()
    factories.opened(factories.failed_flow(factories.pipeline(row)))
    for act in (
        lambda: actions.remove_workspace(name="main-eu", by=ADMIN),
        lambda: actions.switch_workspace(name="main-eu", on=False, by=ADMIN),
        lambda: actions.change_workspace(
            name="main-eu", given=WorkspaceDetails(url="http://127.0.0.1:10", token="t"), by=ADMIN
        ),
    ):
        with refused("recovery_open"):
            act()
    row.refresh_from_db()
    assert row.active


def test_a_restart_does_not_bring_a_removed_one_back() -> None:
    add("demo")
    actions.remove_workspace(name="demo", by=ADMIN)
    from recovery.people.roles import SYSTEM

    actions.register_workspace(
        name="demo", url=URL, token_ref="file:/t", environment="development", by=SYSTEM
    )
    assert not Workspace.objects.active().exists()


@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESPONDER, Role.APPROVER, Role.AUDITOR])
def test_only_an_admin_does(role: Role) -> None:
    add()
    by = Actor("p", role)
    for act in (
        lambda: actions.add_workspace(name="x", given=WorkspaceDetails(url=URL, token="t"), by=by),
        lambda: actions.change_workspace(
            name="main-eu", given=WorkspaceDetails(environment="development"), by=by
        ),
        lambda: actions.switch_workspace(name="main-eu", on=False, by=by),
        lambda: actions.remove_workspace(name="main-eu", by=by),
        lambda: actions.request_test(name="main-eu", by=by),
    ):
        with pytest.raises(Denied):
            act()
    assert AuditEntry.objects.filter(outcome="denied").count() == 5


def rooted(*roots: Any) -> dict[str, str]:
    """Where the roots of the workspace are held to lead, after they were saved."""
    given = WorkspaceDetails(roots=tuple(map(str, roots)))
    return actions.change_workspace(name="main-eu", given=given, by=ADMIN).real_roots


def test_a_root_is_held_to_where_it_led_when_it_was_named_and_other_changes_bless_no_link(
    tmp_path: Path,
) -> None:
    add()
    root, mine, other = tmp_path / "root", tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    other.mkdir()
    root.symlink_to(mine)
    assert rooted(root, "s3://bucket") == {str(root): str(mine)}
    entry = AuditEntry.objects.order_by("seq").last()
    assert entry is not None
    assert entry.after["real_roots"] == {str(root): str(mine)}

    root.unlink()
    root.symlink_to(other)
    assert rooted(root, tmp_path / "new") == {
        str(root): str(mine),
        str(tmp_path / "new"): str(tmp_path / "new"),
    }
    changed = actions.change_workspace(
        name="main-eu", given=WorkspaceDetails(environment="staging"), by=ADMIN
    )
    assert changed.real_roots[str(root)] == str(mine)
    with reach.reading(changed), refused("storage_root_moved"):
        Store.open(str(root))

    rooted()
    assert rooted(root) == {str(root): str(other)}


def test_a_root_that_leads_to_what_is_never_read_is_refused(tmp_path: Path) -> None:
    add()
    (tmp_path / "root").symlink_to("/etc")
    with refused("storage_hidden"):
        rooted(tmp_path / "root")
