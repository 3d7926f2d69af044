"""The only door through which the list of workspaces changes.

Right: MANAGE (setting up a new instance may register its own). Each change and its audit row are one transaction;
what the audit log holds of a secret is where it is, or that it is kept encrypted.
"""

import ipaddress
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, TypedDict
from urllib.parse import urlsplit

from django.utils import timezone

from recovery import reach, references
from recovery.audit.actions import Attempt, audited_attempt
from recovery.contracts import codec
from recovery.contracts.workspace import DescribedWorkspace, LoggedWorkspace
from recovery.encryption import encrypted
from recovery.errors import NotFound, Refused, WrongUse
from recovery.models import Hold, Pipeline, Recovery, Workspace
from recovery.names import is_plain
from recovery.outbound import check as check_outbound
from recovery.people.roles import ENVIRONMENTS, Actor, Right
from recovery.pipelines.workspaces import QUESTIONS, TOKEN, is_sendable
from recovery.workflow import broker

LONGEST_SECRET: Final = 8192
MOST_ROOTS: Final = 50
KINDS: Final = ("pipelines", "streams")
TAKEN_NAMES: Final = frozenset({"new", ".", ".."})
"""They are addresses of something else in Settings > Workspaces."""
KEPT: Final = "kept encrypted"
"""What is shown of a secret that the row itself keeps."""
TEST_PATIENCE: Final = timedelta(minutes=3)
"""After so long a test that was asked for counts as lost, and another may be asked for."""


@dataclass(frozen=True)
class WorkspaceDetails:
    """What somebody says of a workspace; None: as it is (a new one: production, no Spark).

    Of `token_ref` (where it is) and `token` (itself, kept encrypted) at most one; likewise for the questions service,
    whose empty address takes it away. `kind`: of a new one, `pipelines` or `streams`; one of plain streams has neither
    address nor token, and may name folders of event logs. `roots`: below which places its checkpoints and tables are
    read; (): all that the instance may read.
    """

    url: str | None = None
    environment: str | None = None
    token_ref: str | None = None
    token: str | None = None
    questions_url: str | None = None
    questions_token_ref: str | None = None
    questions_token: str | None = None
    questions_spark: str | None = None
    roots: tuple[str, ...] | None = None
    kind: str | None = None
    event_logs: tuple[str, ...] | None = None


class WorkspaceColumns(TypedDict, total=False):
    """Columns of `Workspace` that an act sets; one that is missing stays as it is."""

    url: str
    environment: str
    kind: str
    token_ref: str
    token_kept: str
    questions_url: str
    questions_token_ref: str
    questions_token_kept: str
    questions_spark: str
    roots: list[str]
    real_roots: dict[str, str]
    event_logs: list[str]
    on: bool


@dataclass(frozen=True)
class _Secret:
    """A secret as a row keeps it: where it is, or itself, encrypted."""

    reference: str
    kept: str


def register_workspace(
    *, name: str, url: str, token_ref: str, questions_url: str = "", environment: str, by: Actor
) -> Workspace:
    """Add a workspace, or change the one of that name. References are kept, secrets never.

    Right: MANAGE, or setting up a new instance. Nothing is written, not even a row in the audit log, when
    everything is as it should be already (a restart). Raises Denied, WrongUse.
    """
    wanted = {
        "url": url.rstrip("/"), "token_ref": token_ref, "questions_url": questions_url.rstrip("/"),
        "environment": environment,
    }  # fmt: skip
    with audited_attempt(action="workspace.register", by=by, target_kind="workspace", target=name) as trying:
        by.check_setup()
        _check_name(name)
        _check_address(wanted["url"])
        _check_environment(environment)
        if not token_ref:
            raise WrongUse(
                "token_ref is missing: say where the workspace's token is, as file:/path or env:NAME."
            )
        if not token_ref.startswith(("file:/", "env:")):
            raise WrongUse("token_ref is a reference, file:/path or env:NAME, never the secret itself.")
        if questions_url:
            _check_address(wanted["questions_url"])
        workspace = Workspace.objects.filter(name=name).first()
        if workspace is not None and workspace.removed_at is not None:
            return workspace  # a person removed it: a restart does not bring it back
        before = {field: getattr(workspace, field) for field in wanted} if workspace else None
        if workspace is None:
            workspace = Workspace.objects.create(name=name, **wanted)
        elif before != wanted:
            Workspace.objects.filter(pk=workspace.pk).update(
                **wanted, token_kept="", questions_token_ref="", questions_token_kept="", poll_error=""
            )
            workspace.refresh_from_db()
        if before != wanted:
            trying.done(f"Registered workspace {name} at {url}.", before=before, after=wanted)
    return workspace


def add_workspace(*, name: str, given: WorkspaceDetails, by: Actor) -> Workspace:
    """Add a workspace; one that was removed comes back under its name, with its recoveries, at the same address.

    Raises Denied, WrongUse; Refused: `taken` (the name), `same_address`, `token_elsewhere`, `outbound`.
    """
    name = " ".join(name.split())
    with audited_attempt(action="workspace.add", by=by, target_kind="workspace", target=name[:80]) as trying:
        by.check(Right.MANAGE)
        _check_name(name)
        values: WorkspaceColumns = {"environment": "production", "kind": _check_kind(given), "url": ""}
        values |= _columns(given, None)
        row = Workspace.objects.select_for_update().filter(name=name).first()
        if row is not None and (row.removed_at is None or not _is_same(row, values)):
            raise Refused(
                f"There is a workspace named {name} already{_at(row)}. Take another name.", code="taken"
            )
        if values["url"]:
            _refuse_twin(values["url"], row)
        _refuse_borrowed(given, values, row)
        if row is None:
            row = Workspace.objects.create(name=name, **values)
        else:
            Workspace.objects.filter(pk=row.pk).update(
                **values, on=True, removed_at=None, poll_error="", tested={}, test_asked_at=None
            )
            row.refresh_from_db()
        trying.environment = row.environment
        trying.done(f"Workspace {name} added at {row.url}.", after=_log_workspace(row))
    return row


def change_workspace(*, name: str, given: WorkspaceDetails, by: Actor, on: bool | None = None) -> Workspace:
    """Change address, environment or secrets, and switch it `on` or off in the same act; what is None stays.

    A token never goes to another machine by itself: with another address it has to be given again, and the name of
    the one at hand, or of another workspace's, is no giving. Raises Denied, NotFound, WrongUse; Refused: `token_again`,
    `token_elsewhere`, `same_address`, `outbound`, `recovery_open`.
    """
    with _managing("workspace.change", name, by) as (trying, row):
        before, values = _log_workspace(row), _columns(given, row)
        moved = "url" in values and _place(values["url"]) != _place(row.url)
        is_same = bool(given.token_ref) and _source(given.token_ref or "") == _source(row.token_ref)
        if moved and (is_same or not (given.token or given.token_ref)):
            raise Refused(
                "Another address needs its token again: the stored one is not sent to another machine.",
                code="token_again",
            )
        values = _with_questions(given, values, row)
        _refuse_borrowed(given, values, row)
        if moved:
            _refuse_twin(values["url"], row)
            _refuse_in_use(row)
        if on is not None and row.on != on:
            values["on"] = on
            if not on:
                _leave(row)
        Workspace.objects.filter(pk=row.pk).update(**values, poll_error="", tested={}, test_asked_at=None)
        row.refresh_from_db()
        trying.done(f"Workspace {row.name} changed.", before=before, after=_log_workspace(row))
    return row


def switch_workspace(*, name: str, on: bool, by: Actor) -> Workspace:
    """Switch a workspace off (it is not polled, its flows leave the lists) or on again. Its history stays.

    Raises Denied, NotFound; Refused (`recovery_open`) while a recovery is open there or something is still paused.
    """
    with _managing("workspace.switch", name, by) as (trying, row):
        if row.on != on:
            if not on:
                _leave(row)
            Workspace.objects.filter(pk=row.pk).update(on=on, poll_error="")
            row.refresh_from_db()
            trying.done(
                f"Workspace {row.name} switched {'on' if on else 'off'}.",
                before={"on": not on},
                after={"on": on},
            )
    return row


def remove_workspace(*, name: str, by: Actor, reason: str = "") -> Workspace:
    """Remove a workspace: its secrets are erased, its flows leave the lists, its recoveries and audit stay.

    Raises Denied, NotFound; Refused (`recovery_open`) while a recovery is open there or something is still paused.
    """
    with _managing("workspace.remove", name, by, reason) as (trying, row):
        before = codec.to_json(describe_workspace(row))
        _leave(row)
        Workspace.objects.filter(pk=row.pk).update(
            on=False,
            removed_at=timezone.now(),
            poll_error="",
            test_asked_at=None,
            **dict.fromkeys(("token_ref", "token_kept", "questions_token_ref", "questions_token_kept"), ""),
        )
        row.refresh_from_db()
        kept = Recovery.objects.filter(flow__pipeline__workspace=row).count()
        trying.done(f"Workspace {row.name} removed; {kept} recoveries of it are kept.", before=before)
    return row


def request_test(*, name: str, by: Actor) -> Workspace:
    """Have a worker test a workspace; the answers stand in its row. One that is under way is not asked for twice.

    Raises Denied, NotFound; Unreachable without a broker.
    """
    from recovery.pipelines import tasks

    with _managing("workspace.test", name, by) as (trying, row):
        broker.check()
        now = timezone.now()
        if row.test_asked_at is None or now - row.test_asked_at > TEST_PATIENCE:
            Workspace.objects.filter(pk=row.pk).update(test_asked_at=now)
            row.refresh_from_db()
            broker.send_on_commit(tasks.test_workspace, row.pk)
            trying.done(f"A test of workspace {row.name} was asked for.")
    return row


def note_test(*, name: str, by: Actor) -> Workspace:
    """Note that somebody tests a workspace at once, who asks and waits for the answers. Raises Denied, NotFound."""
    with _managing("workspace.test", name, by) as (trying, row):
        trying.done(f"Workspace {row.name} tested.")
    return row


def describe_workspace(row: Workspace) -> DescribedWorkspace:
    """A workspace for `list`, the API and the audit log."""
    return DescribedWorkspace(
        name=row.name,
        url=row.url,
        environment=row.environment,
        token=KEPT if row.token_kept else row.token_ref,
        questions_url=row.questions_url,
        questions_token=KEPT if row.questions_token_kept else row.questions_token_ref,
        questions_spark=row.questions_spark,
        on=row.on,
        roots=tuple(row.roots),
        kind=row.kind,
        event_logs=tuple(row.event_logs),
    )


def _log_workspace(row: Workspace) -> dict[str, Any]:
    """For the audit log alone: with where the roots led when they were named."""
    return codec.to_json(LoggedWorkspace(**dict(describe_workspace(row)), real_roots=row.real_roots))


def workspace_named(name: str) -> Workspace:
    """One that was not removed. Raises NotFound."""
    row = Workspace.objects.kept().filter(name=name).first()
    if row is None:
        names = ", ".join(Workspace.objects.kept().order_by("name").values_list("name", flat=True)[:20])
        raise NotFound(
            f"There is no workspace {name!r}. {f'There is: {names}.' if names else 'Add it first.'}"
        )
    return row


@contextmanager
def _managing(action: str, name: str, by: Actor, reason: str = "") -> Iterator[tuple[Attempt, Workspace]]:
    """One act on a workspace that is there: the right is checked, the row is locked. Raises Denied, NotFound."""
    with audited_attempt(
        action=action, by=by, target_kind="workspace", target=name[:80], reason=reason
    ) as trying:
        by.check(Right.MANAGE)
        row = Workspace.objects.select_for_update().get(pk=workspace_named(name).pk)
        trying.environment = row.environment
        yield trying, row


def _check_kind(given: WorkspaceDetails) -> str:
    """Raises WrongUse where what was given is not what a workspace of its kind has."""
    kind = given.kind or "pipelines"
    if kind not in KINDS:
        raise WrongUse(f"A workspace is of kind {' or '.join(KINDS)}.", code="workspace_kind")
    token = given.token or given.token_ref
    if kind == "pipelines" and (not given.url or not token):
        raise WrongUse("A workspace needs an address and a token.", code="no_token")
    if kind == "streams" and (given.url or token):
        raise WrongUse("A workspace of plain streams has neither address nor token.", code="workspace_kind")
    return kind


def _is_same(row: Workspace, values: WorkspaceColumns) -> bool:
    """May a removed one come back as this: of the same kind, at the same address?"""
    return row.kind == values["kind"] and (row.has_streams or _place(row.url) == _place(values["url"]))


def _columns(given: WorkspaceDetails, row: Workspace | None) -> WorkspaceColumns:
    """The columns that `given` sets in `row`. Raises WrongUse, Refused."""
    values: WorkspaceColumns = {}
    if given.event_logs is not None:
        if len(given.event_logs) > MOST_ROOTS:
            raise WrongUse(
                f"A workspace has at most {MOST_ROOTS} folders of event logs.", code="too_many_roots"
            )
        values["event_logs"] = reach.check_roots(given.event_logs)
    of_streams = row.has_streams if row else given.kind == "streams"
    if given.url and of_streams:
        raise WrongUse("A workspace of plain streams has no address.", code="workspace_kind")
    if given.url is not None and not of_streams:
        values["url"] = _check_address(given.url.strip().rstrip("/"))
    if given.environment is not None:
        values["environment"] = _check_environment(given.environment)
    if (token := _secret("token", given.token_ref, given.token, TOKEN)) is not None:
        values |= {"token_ref": token.reference, "token_kept": token.kept}
    if given.roots is not None:
        values |= _rooted(given.roots, row)
    if given.questions_url is not None:
        url = given.questions_url.strip().rstrip("/")
        values["questions_url"] = _check_address(url) if url else ""
        if not url:
            values |= {"questions_token_ref": "", "questions_token_kept": "", "questions_spark": ""}
    if given.questions_spark is not None:
        values["questions_spark"] = _check_spark(given.questions_spark.strip())
    token = _secret("questions_token", given.questions_token_ref, given.questions_token, QUESTIONS)
    if token is not None:
        values |= {"questions_token_ref": token.reference, "questions_token_kept": token.kept}
    return values


def _rooted(given: Sequence[str], row: Workspace | None) -> WorkspaceColumns:
    """Roots, and where they lead. One that `row` has stays where it led: saving something else takes no link that has
    come since. Raises WrongUse, Refused."""
    if len(given) > MOST_ROOTS:
        raise WrongUse(f"A workspace has at most {MOST_ROOTS} roots.", code="too_many_roots")
    roots = reach.check_roots(given)
    before = {} if row is None else row.real_roots
    held = {root: before[root] for root in roots if root in before}
    return {
        "roots": roots,
        "real_roots": held | reach.resolve_roots([root for root in roots if root not in held]),
    }


def _secret(field: str, ref: str | None, value: str | None, purpose: str) -> _Secret | None:
    """None: none was given. Raises WrongUse."""
    if ref and value:
        raise WrongUse(f"Give {field} once: itself, or where it is.", code="two_secrets")
    if value:
        if len(value) > LONGEST_SECRET or not is_sendable(value):
            raise WrongUse(
                f"{field} has at most {LONGEST_SECRET} ASCII characters, in one line and without blanks.",
                code="odd_secret",
            )
        return _Secret("", encrypted(value, purpose))
    return _Secret(references.WORKSPACES.check(ref), "") if ref else None


def _check_name(name: str) -> None:
    if not name.strip() or len(name) > 80 or not is_plain(name) or "/" in name or name in TAKEN_NAMES:
        raise WrongUse(
            "A workspace needs a name of 1 to 80 characters, without a slash, and not 'new', '.' or '..'.",
            code="workspace_name",
        )


def _check_address(url: str) -> str:
    """The address, in a spelling that leads to one place: no dots in its path, no number cut short."""
    parts = urlsplit(check_outbound(url))
    has_dots = {".", "..", ""} & set(parts.path.strip("/").split("/")) if parts.path.strip("/") else False
    if len(url) > 300 or any(c in url for c in "?#%;") or has_dots or _is_short_number(parts.hostname or ""):
        raise WrongUse("A workspace's address is http(s)://host[:port], spelled in full and without a query.")
    return url


def _is_short_number(host: str) -> bool:
    """An IPv4 address in a spelling of its own: `127.1`, `0x7f000001`."""
    try:
        return socket.inet_ntoa(socket.inet_aton(host)) != host.rstrip(".")
    except OSError:
        return False


def _check_environment(environment: str) -> str:
    if environment not in ENVIRONMENTS:
        raise WrongUse(f"An environment is one of {', '.join(ENVIRONMENTS)}.")
    return environment


def _check_spark(name: str) -> str:
    """The name by which a questions service knows another Spark; "": its own."""
    if len(name) > 80 or not is_plain(name) or " " in name:
        raise WrongUse(
            "The name of a Spark at its questions service has up to 80 characters, without blanks."
        )
    return name


def _place(url: str) -> tuple[str, str, int, str]:
    """One spelling of an address."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = (parts.hostname or "").rstrip(".")
    try:
        ip = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
        host = str((ip.version == 6 and ip.ipv4_mapped) or ip)
    except ValueError:
        pass  # a name
    return parts.scheme, host, port, parts.path.rstrip("/")


def _source(ref: str) -> str:
    """One spelling of where a secret is."""
    kind, _, place = ref.partition(":")
    return f"file:{os.path.realpath(place)}" if kind == "file" else ref


def _with_questions(given: WorkspaceDetails, values: WorkspaceColumns, row: Workspace) -> WorkspaceColumns:
    """The columns with a questions service that is the workspace itself where it was that before it moved.

    Raises Refused (`token_again`) where its own token would go to another address.
    """
    was, url = row.questions_url, values.get("url", row.url)
    if given.questions_url is None and was and _place(was) == _place(row.url):
        return {**values, "questions_url": url} if _place(url) != _place(row.url) else values
    now = values.get("questions_url", was)
    if not now or not was or _place(now) == _place(was):
        return values
    if _place(now) == _place(url):
        return {"questions_token_ref": "", "questions_token_kept": "", **values}
    if (row.questions_token_ref or row.questions_token_kept) and not (
        given.questions_token or given.questions_token_ref
    ):
        raise Refused(
            "Another questions service needs its token again: the stored one is not sent to another machine.",
            code="token_again",
        )
    return values


def _refuse_borrowed(given: WorkspaceDetails, values: WorkspaceColumns, row: Workspace | None) -> None:
    """A reference that sends a token to one address may not send it to another one, of whichever workspace."""
    others = Workspace.objects.kept().exclude(pk=row.pk if row else 0)
    held = [(w, w.token_ref, w.url) for w in others if w.token_ref]
    held += [(w, w.questions_token_ref, w.questions_url) for w in others if w.questions_token_ref]
    url = values.get("url") or (row.url if row else "")
    questions = values.get("questions_url") or (row.questions_url if row else "")
    for reference, place in ((given.token_ref, url), (given.questions_token_ref, questions)):
        source = _source(reference or "")
        owner = next(
            (
                w
                for w, ref, at in held
                if reference and _source(ref) == source and _place(at) != _place(place)
            ),
            None,
        )
        if owner is None:
            continue
        raise Refused(
            f"That is where workspace {owner.name} has its token, which is not sent to another machine. Give this "
            "workspace its own token.",
            code="token_elsewhere",
        )


def _at(row: Workspace) -> str:
    return f" (removed, at {row.url})" if row.removed_at else ""


def _refuse_twin(url: str, row: Workspace | None) -> None:
    """Two rows of one address would let two recoveries run on one flow."""
    others = Workspace.objects.kept().exclude(pk=row.pk if row else 0)
    twin = next((w for w in others if _place(w.url) == _place(url)), None)
    if twin is not None:
        raise Refused(
            f"Workspace {twin.name} has this address already. One address is one workspace, so that no flow is "
            "recovered twice at a time.",
            code="same_address",
        )


def _refuse_in_use(row: Workspace) -> None:
    open_ones = Recovery.objects.filter(flow__pipeline__workspace=row, active=True).order_by("pk")
    if labels := [r.label for r in open_ones[:5]]:
        raise Refused(
            f"In workspace {row.name} {', '.join(labels)} {'is' if len(labels) == 1 else 'are'} open. End "
            f"{'it' if len(labels) == 1 else 'them'} first.",
            code="recovery_open",
        )
    held = Hold.objects.filter(pipeline__workspace=row, state__in=("noted", "paused")).first()
    if held is not None:
        raise Refused(
            f"{held} is still paused there and has to be restored first; that is tried every 30 s.",
            code="still_paused",
        )


def _leave(row: Workspace) -> None:
    """Its flows leave every list. Raises Refused while something of ours is under way there."""
    _refuse_in_use(row)
    Pipeline.objects.filter(workspace=row).update(gone=True)
