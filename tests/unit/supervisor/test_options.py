"""What bin/demo accepts and refuses, before anything is downloaded or started."""

from pathlib import Path

import pytest

from console.supervisor import options
from console.supervisor.bootstrap import CannotStart


def test_the_home_is_the_one_that_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REPRISE_HOME", str(tmp_path / "here"))

    assert options.parse_options(["--port", "0", "--no-incident"]) == options.DemoOptions(
        tmp_path / "here", 0, False, False
    )


def test_the_home_is_var_beside_manage_py_when_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REPRISE_HOME")

    asked = options.parse_options(["--reset"])

    assert asked.home.name == "var"
    assert (asked.home.parent / "manage.py").exists()
    assert (asked.port, asked.reset, asked.incident) == (8000, True, True)


def test_connectors_are_asked_for() -> None:
    assert options.parse_options(["--connectors"]).connectors
    assert not options.parse_options([]).connectors


def test_what_cannot_be_done_is_refused_in_one_sentence() -> None:
    with pytest.raises(CannotStart, match="is no port"):
        options.parse_options(["--port", "70000"])
