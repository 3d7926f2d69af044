"""The stages of a start in processes of their own: connectors, broker's check, databases, an instance's own
administrator and workspace, the demo's people and its plain stream.

Passwords and tokens of the demo's people stay in `people.json` (mode 0600). A password is written there
before the person is made and a token right after, so a crash at any point costs one unused token at most.
"""

import hashlib
import json
import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from kombu.exceptions import OperationalError

from console.celery import app
from console.incident.orders_making import NAME as ORDERS
from console.incident.orders_making import make_orders, orders_folder
from console.supervisor import home as homes
from console.supervisor import jars
from console.supervisor.apart import read_own_servers
from console.supervisor.bootstrap import CannotStart, print_line, progress_line
from recovery.errors import Unreachable
from recovery.models import Person, Token, Workspace
from recovery.people.actions import create_person, create_token, set_password
from recovery.people.first import make_first_administrator
from recovery.people.identity import actor_for_token
from recovery.people.roles import SYSTEM, Role
from recovery.pipelines.actions import register_workspace
from recovery.streams.actions import StreamDetails, adopt_stream, find_adopted

PEOPLE = {
    "viewer": "viewer", "responder": "responder", "approver": "approver", "approver2": "approver",
    "auditor": "auditor", "admin": "admin",
}  # fmt: skip


def check_broker() -> None:
    """Raises Unreachable when no one answers at the address that the person gave."""
    try:
        with app.connection_for_write() as connection:
            connection.ensure_connection(max_retries=1, interval_start=1, timeout=5)
    except (OperationalError, OSError, ValueError, KeyError) as problem:
        raise Unreachable(
            f"The broker named by REPRISE_BROKER_URL does not answer ({problem}); start it, or "
            "unset the variable."
        ) from problem


def prepare_databases() -> None:
    """The console's tables, and the static files with their hashes. The API server makes its own tables."""
    call_command("migrate", verbosity=0, interactive=False)
    call_command("collectstatic", verbosity=0, interactive=False)


def prepare_instance() -> None:
    """What a new instance begins with: one administrator, and the workspace of its own API server, in production unless
    REPRISE_PIPELINES_ENVIRONMENT says otherwise. What is there stays as people have set it since.

    Raises WrongUse where a setting is missing or not good, Refused.
    """
    if not Person.objects.filter(role=Role.ADMIN.value, user__is_active=True).exists():
        make_first_administrator(name=settings.ENV.admin_name, password=settings.ENV.admin_password)
    url, environment = pipelines_url(), settings.ENV.pipelines_environment
    if not Workspace.objects.filter(url=url.rstrip("/")).exists():
        is_second = Workspace.objects.filter(name="pipelines").exists()  # the server of another environment
        name = f"pipelines-{environment}" if is_second else "pipelines"
        register_own_workspace(name=name, url=url, environment=environment)


def prepare_people() -> None:
    """One person a role with a password and a token that work, and the workspace of the own API server."""
    kept = homes.read_json(settings.REPRISE_HOME / "people.json")
    for name, role in PEOPLE.items():
        known = {**kept.get(name, {}), "role": role}
        ensure_password(name, known)
        ensure_token(name, known)
    register_own_workspace(name="demo", url=pipelines_url(), environment="development")
    for server in read_own_servers(settings.ENV.own_drivers, settings.REPRISE_HOME):
        register_own_workspace(
            name=f"demo-{server.environment}",
            url=homes.read_json(server.home / "pipelines.json").get("url", ""),
            environment=server.environment,
            token=server.token,
        )


def pipelines_url() -> str:
    """Where the console reaches its own API server; "" where not set."""
    listens = homes.read_json(settings.REPRISE_HOME / "pipelines.json").get("url", "")
    return str(settings.ENV.pipelines_url or listens)


def register_own_workspace(*, name: str, url: str, environment: str, token: Path | None = None) -> None:
    """The workspace of an own API server, which answers questions too. Raises WrongUse.

    `token`: the file with its token; None: that of the first server.
    """
    first = settings.REPRISE_PIPELINES_TOKEN_FILE or settings.REPRISE_HOME / "pipelines.token"
    register_workspace(
        name=name,
        url=url,
        token_ref=f"file:{token or first}",
        questions_url=url,
        environment=environment,
        by=SYSTEM,
    )


def ensure_password(name: str, known: dict[str, Any]) -> None:
    """Make the person, or give them the kept password again should it no longer be theirs."""
    known.setdefault("password", secrets.token_urlsafe(12))
    keep_person(name, known)
    user = User.objects.filter(username=name).first()
    if user is None:
        create_person(name=name, role=known["role"], password=known["password"], by=SYSTEM)
    elif not user.check_password(known["password"]):
        set_password(user=user, password=known["password"], by=SYSTEM)


def ensure_token(name: str, known: dict[str, Any]) -> None:
    """Make a token unless the kept one still works."""
    digest = hashlib.sha256(str(known.get("token", "")).encode()).hexdigest()
    if not Token.objects.filter(sha256=digest, user__username=name, revoked_at=None).exists():
        known["token"] = create_token(owner=User.objects.get(username=name), name="demo", by=SYSTEM)
        keep_person(name, known)


def keep_person(name: str, known: dict[str, Any]) -> None:
    path = settings.REPRISE_HOME / "people.json"
    homes.write_private(path, json.dumps(homes.read_json(path) | {name: known}, indent=2))


def bring_connectors() -> None:
    """The locked archives of Spark's connectors and of a Kafka broker. Raises Unreachable when they cannot be had."""
    try:
        for name in ("connectors", "kafka-broker"):
            jars.ensure_jars(name)
    except CannotStart as problem:
        raise Unreachable(str(problem)) from problem


def adopt_orders() -> None:
    """The demo's plain stream, failed, on the list with the commands of its scheduler. Raises Refused, Unreachable."""
    home = settings.REPRISE_HOME
    made = make_orders(
        folder=orders_folder(home), tell=lambda what, seconds: print_line(progress_line(f"  {what}", seconds))
    )
    if find_adopted(made.checkpoint) is not None:
        return
    said = StreamDetails(
        name=ORDERS,
        sink=made.table,
        event_log=made.event_log,
        program=made.program,
        arguments=(made.folder,),
        start=made.command("start"),
        stop=made.command("stop"),
        running=made.command("running"),
        environment="development",
    )
    admin = homes.read_json(home / "people.json")["admin"]["token"]
    adopt_stream(checkpoint=made.checkpoint, said=said, by=actor_for_token(admin, via="command"))


STAGES = {
    "broker": check_broker,
    "connectors": bring_connectors,
    "databases": prepare_databases,
    "instance": prepare_instance,
    "people": prepare_people,
    "orders": adopt_orders,
}
