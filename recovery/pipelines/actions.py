"""The only door through which the list of workspaces changes."""

from urllib.parse import urlsplit

from recovery.audit.actions import attempt
from recovery.errors import WrongUse
from recovery.models import Workspace
from recovery.outbound import check as check_outbound
from recovery.people.roles import ENVIRONMENTS, Actor


def register_workspace(
    *, name: str, url: str, token_ref: str, spark_remote_ref: str = "", environment: str, by: Actor
) -> Workspace:
    """Add a workspace, or change the one of that name. References are kept, secrets never.

    Right: MANAGE, or setting up a new instance. Nothing is written, not even a row in the audit log, when
    everything is as it should be already (a restart). Raises Denied, WrongUse.
    """
    wanted = {
        "url": url.rstrip("/"), "token_ref": token_ref, "spark_remote_ref": spark_remote_ref,
        "environment": environment,
    }  # fmt: skip
    with attempt(action="workspace.register", by=by, target_kind="workspace", target=name) as trying:
        by.check_setup()
        _check(name, wanted)
        workspace = Workspace.objects.filter(name=name).first()
        before = {field: getattr(workspace, field) for field in wanted} if workspace else None
        if workspace is None:
            workspace = Workspace.objects.create(name=name, **wanted)
        elif before != wanted:
            Workspace.objects.filter(pk=workspace.pk).update(**wanted, poll_error="")
            workspace.refresh_from_db()
        if before != wanted:
            trying.done(f"Registered workspace {name} at {url}.", before=before, after=wanted)
    return workspace


def _check(name: str, wanted: dict[str, str]) -> None:
    if not name.strip() or len(name) > 80:
        raise WrongUse("A workspace needs a name of 1 to 80 characters.")
    if urlsplit(check_outbound(wanted["url"])).query:
        raise WrongUse("A workspace's address is http(s)://host[:port], without a query.")
    for field in ("token_ref", "spark_remote_ref"):
        if wanted[field] and not wanted[field].startswith(("file:/", "env:")):
            raise WrongUse(f"{field} is a reference, file:/path or env:NAME, never the secret itself.")
    if not wanted["token_ref"]:
        raise WrongUse("token_ref is missing: say where the workspace's token is, as file:/path or env:NAME.")
    if wanted["environment"] not in ENVIRONMENTS:
        raise WrongUse(f"An environment is one of {', '.join(ENVIRONMENTS)}.")
