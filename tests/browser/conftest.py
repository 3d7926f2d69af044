"""A browser, and a console of its own whose rows show every situation (no Spark, no Pipelines API)."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests import databases
from tests.browser.objects import SignIn
from tests.factories import PASSWORD
from tests.pipelines_api import BATCHES, serve

ROOT = Path(__file__).resolve().parents[2]
SHOTS = Path(os.environ.get("SCREENSHOTS", "")) if os.environ.get("SCREENSHOTS") else None


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    """The browser that bin/test found, else the system's, else the one that Playwright brings."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("CONSOLE_TEST_BROWSER") or next(filter(None, map(shutil.which, names)), None)
    given = {**browser_type_launch_args, "chromium_sandbox": False}
    return {**given, "executable_path": found} if found else given


@dataclass(frozen=True)
class Gallery:
    """A running console and the address of each situation."""

    url: str
    addresses: dict[str, str]

    def at(self, name: str) -> str:
        return self.url + self.addresses[name]


@pytest.fixture(scope="session")
def gallery() -> Iterator[Gallery]:
    """The real server (gunicorn, whitenoise, CSP) over a database made by `situations`."""
    with serve() as api:
        api.events = [*api.events[:-1], *reversed(BATCHES), api.events[-1]]
        yield from _gallery(api.url)


def _gallery(api: str) -> Iterator[Gallery]:
    home = tempfile.mkdtemp(prefix="reprise-gallery-")
    given = {
        "REPRISE_HOME": home, "REPRISE_SECRET_KEY": "browser-tests-" + "x" * 40, "REPRISE_TEST_API": api,
        "REPRISE_MAIL_HOST": "127.0.0.1", "REPRISE_MAIL_FROM": "reprise@corp.example",
    }  # fmt: skip
    made = databases.fresh(os.environ.get(databases.VARIABLE, ""))
    env = {**os.environ, **given, **made}
    run = subprocess.run(
        [sys.executable, "-m", "tests.browser.situations"],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    port = _free_port()
    command = [
        sys.executable,
        "-m",
        "gunicorn",
        "console.wsgi",
        "--bind",
        f"127.0.0.1:{port}",
        "--threads",
        "4",
    ]
    server = subprocess.Popen(
        command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        url = f"http://127.0.0.1:{port}"
        _until_up(url + "/sign-in", server)
        yield Gallery(url, json.loads(run.stdout.splitlines()[-1]))
    finally:
        server.terminate()
        server.wait(20)
        databases.drop(made.values())
        shutil.rmtree(home, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _until_up(url: str, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310  (our own address)
                return
        except OSError:
            assert server.poll() is None, "the console ended at its start"
            assert time.monotonic() < until, "the console did not answer within 60 s"


@pytest.fixture(scope="session")
def signed_in(browser: Browser, gallery: Gallery) -> Iterator[Page]:
    """One page, signed in as the admin, who may see every page."""
    context = browser.new_context(reduced_motion="reduce")
    page = context.new_page()
    SignIn(page, gallery.url).as_("admin", PASSWORD)
    yield page
    context.close()


def shoot(page: Page, name: str, *, whole: bool = True) -> None:
    """Keep a picture where SCREENSHOTS names a folder: of the whole page, or of what the window shows."""
    if SHOTS is not None:
        SHOTS.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=SHOTS / f"{name}.png", full_page=whole)
