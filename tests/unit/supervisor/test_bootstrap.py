"""The environment: when it is made anew, and what a person is told when it cannot be."""

import errno
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from console.supervisor import bootstrap, tools
from tests.refusals import refused


@pytest.mark.parametrize(
    ("output", "code"),
    [
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "disk_full"),
        ("NewConnectionError: Temporary failure in name resolution", "index_silent"),
        ("error: Failed to fetch: `x`\n  Caused by: dns error", "index_silent"),
        ("THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE", "not_as_locked"),
        ("error: Hash mismatch for `django==5.2.19`", "not_as_locked"),
        (
            "error: Failed to fetch: `x`\n  cause: error sending request for url\n  cause: client error (Connect)\n"
            "  cause: invalid peer certificate: UnknownIssuer",
            "index_untrusted",
        ),
        (
            "SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify",
            "index_untrusted",
        ),
        ("error: something else", "install_failed"),
    ],
)
def test_a_failed_install_has_a_code_and_one_sentence(output: str, code: str) -> None:
    problem = bootstrap.explain_install(output, Path("install.log"))

    assert problem.code == code
    assert "\n" not in str(problem)


@pytest.mark.parametrize(
    ("output", "tried"),
    [("no space left", 1), ("dns error", 1), ("UnknownIssuer", 1), ("no wheel for this machine", 2)],
)
def test_pip_is_tried_in_place_of_uv_unless_it_would_fail_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, tried: int
) -> None:
    commands: list[list[str]] = []

    def fails_for_uv(command: list[str], log: Path) -> None:
        commands.append(command)
        if command[-1].endswith("uv.txt"):
            raise bootstrap.explain_install(output, log)

    monkeypatch.setattr(bootstrap, "run_logged", fails_for_uv)
    monkeypatch.setattr(bootstrap, "make_venv", lambda venv, log: None)
    try:
        bootstrap.install_set(tmp_path, "demo")
    except bootstrap.CannotStart:
        assert tried == 1
    assert len(commands) == tried


@pytest.mark.parametrize(
    ("needed", "have", "wanted"),
    [
        ("demo", "", "demo"),
        ("dev", "", "dev"),
        ("dev", "demo", "dev"),
        ("demo", "dev", "dev"),
        ("demo", "x", "demo"),
    ],
)
def test_a_developers_larger_environment_is_kept(needed: str, have: str, wanted: str) -> None:
    assert bootstrap.wanted_set(needed, {"set": have}) == wanted


def checkout_with_environment(folder: Path) -> tuple[Path, Path]:
    """A checkout with one lock and an environment that was made from it."""
    venv = folder / ".venv"
    (folder / "requirements").mkdir()
    (folder / "requirements" / "demo.txt").write_text("django==5.2.19\n")
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    stamp = {"set": "demo", "sha256": bootstrap.lock_sha256("demo", folder), "root": str(folder)}
    (venv / "reprise-lock.json").write_text(json.dumps(stamp | {"python": platform.python_version()}))
    return folder, venv


def test_an_environment_made_from_this_lock_is_used_again(tmp_path: Path) -> None:
    root, venv = checkout_with_environment(tmp_path)

    assert bootstrap.is_current(venv, "demo", root)


@pytest.mark.parametrize("change", ["lock", "stamp", "python", "moved"])
def test_anything_that_changed_makes_the_environment_stale(tmp_path: Path, change: str) -> None:
    root, venv = checkout_with_environment(tmp_path)
    stamp = json.loads((venv / "reprise-lock.json").read_text())
    if change == "lock":
        (root / "requirements" / "demo.txt").write_text("django==5.2.20\n")
    elif change == "stamp":
        (venv / "reprise-lock.json").write_text("{ half")
    elif change == "python":
        (venv / "bin" / "python").unlink()
    else:
        (venv / "reprise-lock.json").write_text(json.dumps(stamp | {"root": "/elsewhere"}))

    assert not bootstrap.is_current(venv, "demo", root)


def test_an_environment_that_is_a_link_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is somebody else's, and making it anew begins by emptying it."""
    _, venv = checkout_with_environment(tmp_path)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / ".venv").symlink_to(venv)
    monkeypatch.setattr(bootstrap, "ROOT", mine)

    with refused("environment_is_link", bootstrap.CannotStart, names=(venv,)):
        bootstrap.ensure_set("demo")
    assert (venv / "bin" / "python").exists()


def test_a_full_disk_is_said_as_a_full_disk() -> None:
    sentence = bootstrap.os_sentence(
        OSError(errno.ENOSPC, "No space left on device"), "making the environment"
    )

    assert ("disk is full" in sentence, "making the environment" in sentence) == (True, True)


def test_an_installer_that_fails_leaves_its_output_and_one_sentence(tmp_path: Path) -> None:
    log = tmp_path / "install.log"
    command = [sys.executable, "-c", "print('dns error'); raise SystemExit(1)"]

    with refused("index_silent", bootstrap.CannotStart, names=(log,)):
        bootstrap.run_logged(command, log)
    assert "dns error" in log.read_text()


def test_the_modules_that_run_before_the_environment_need_the_standard_library_only() -> None:
    code = (
        "import sys; sys.path.insert(0, '.'); from console.supervisor import tools; "
        "known = sys.stdlib_module_names | {'console', 'devtools', '__main__'}; "
        "print([m for m in sys.modules if m.split('.')[0] not in known])"
    )
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        cwd=bootstrap.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )

    assert answer.stdout.strip() == "[]"


def test_a_command_lets_python_keep_compiled_code_whatever_the_caller_has_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")

    assert tools.main("check", ["wrong"]) == 2
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ
