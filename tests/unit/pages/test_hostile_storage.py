"""Whatever an API names as a pipeline's storage: no page fails, and nothing is asked that nobody allowed."""

import socket
import threading
from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.test import Client

from recovery.models import Flow, Workspace
from tests import factories

pytestmark = pytest.mark.django_db

STORAGES: Final[dict[str, tuple[Any, str]]] = {
    "http": ("http://127.0.0.1:{port}/meta", "storage_scheme"),
    "https": ("https://127.0.0.1:{port}/meta", "storage_scheme"),
    "ftp": ("ftp://127.0.0.1:{port}/meta", "storage_scheme"),
    "chained": ("zip://x::http://127.0.0.1:{port}/a.zip", "storage_scheme"),
    "cached": ("simplecache::http://127.0.0.1:{port}/a", "storage_scheme"),
    "data": ("data:,x", "storage_scheme"),
    "namenode": ("hdfs://elsewhere.example:{port}/x", "storage_host"),
    "azure elsewhere": ("abfss://c@elsewhere.example/x", "storage_host"),
    "metadata service": ("hdfs://169.254.169.254:{port}/x", "storage_host"),
    "user in the host": ("hdfs://a@127.0.0.1:{port}/x", "storage_address"),
    "dots": ("s3://bucket/../../x", "storage_address"),
    "line": ("s3://bucket/\nx", "storage_address"),
    "system": ("/etc", "storage_hidden"),
    "system by URL": ("file:///etc", "storage_hidden"),
    "system by dots": ("/tmp/../etc", "storage_hidden"),
    "processes": ("/proc/self", "storage_hidden"),
    "keys": ("~/.ssh", "storage_hidden"),
    "home": ("{home}", "storage_hidden"),
    "device": ("/dev/zero", "storage_hidden"),
    "no bucket": ("s3://", ""),
    "nothing there": ("/nowhere/at/all", ""),
    "relative": ("some/where", ""),
    "long": ("/x" * 3000, ""),
    "long name": ("/" + "x" * 300, ""),
    "control characters": ("/x\x1b[2Jy", ""),
    "number": (7, "no_storage"),
    "list": (["/x"], "no_storage"),
    "object": ({"x": "/x"}, "no_storage"),
    "other user's home": ("~nobody/x", ""),
}
PAGES: Final = (
    "",
    "?part=unread",
    "/checkpoint",
    "/checkpoint?batch=1",
    "/checkpoint?files=0",
    "/checkpoint?version=0",
    "/code",
    "/events",
    "/recoveries",
)


@pytest.fixture
def listener() -> Iterator[tuple[int, list[object]]]:
    """(port, connections) of a server on this machine that nothing may call."""
    called: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept() -> None:
            try:
                while True:
                    connection, peer = server.accept()
                    called.append(peer)
                    connection.close()
            except OSError:
                return

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1], called
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("kind", STORAGES)
def test_no_hostile_storage_breaks_a_page_or_is_called(
    kind: str, client: Client, settings: Any, listener: tuple[int, list[object]]
) -> None:
    storage, code = STORAGES[kind]
    port, called = listener
    if isinstance(storage, str):
        storage = storage.format(port=port, home=settings.REPRISE_HOME)
    flow = factories.failed_flow(factories.pipeline(spec={"storage": storage}))
    Workspace.objects.update(url="http://workspace.invalid")  # only storage is asked about here
    recovery = factories.opened(flow)
    client.force_login(factories.person("viewer"))

    pages = [f"/flows/{flow.pk}{page}" for page in PAGES]
    pages += [
        "/",
        f"/recoveries/{recovery.pk}/diagnose",
        f"/recoveries/{recovery.pk}/stop",
        f"/pipelines/{flow.pipeline.pk}",
    ]
    answers = {page: client.get(page) for page in pages}

    assert {page: a.status_code for page, a in answers.items() if a.status_code >= 500} == {}
    problem = answers[f"/flows/{flow.pk}/checkpoint"].context.get("problem")
    assert code in ("", getattr(problem, "code", ""))
    assert called == []


def test_a_workspaces_roots_hold_on_its_pages(responder: Client, tmp_path: Any) -> None:
    flow = factories.failed_flow(factories.pipeline(spec={"storage": str(tmp_path / "data")}))
    page = f"/flows/{flow.pk}/checkpoint"

    def code() -> str:
        return getattr(responder.get(page).context.get("problem"), "code", "")

    assert code() == "unreachable", "without roots all that the instance may read; nothing is there"
    Workspace.objects.filter(pk=flow.pipeline.workspace_id).update(roots=[str(tmp_path / "data")])
    assert code() == "unreachable"
    Workspace.objects.filter(pk=flow.pipeline.workspace_id).update(roots=[str(tmp_path / "other")])
    assert code() == "storage_root"
    assert Flow.objects.get(pk=flow.pk).pipeline.workspace.roots
