"""What code asks for in vain is noted, and nothing of the notes stays in what the code keeps."""

import copy
import os
import pickle
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from recovery.spark.unset import EVERY_VARIABLE, UnsetNames, noting_unset

KEEPING = """
import os
from os import environ
from os.path import exists
from io import open

def by_variable(_):
    return environ.get("NO_SUCH_RATE", "1")

def by_file(_):
    return exists("/no/such/file")
"""


def run(tmp_path: Path, text: str) -> tuple[UnsetNames, dict[str, Any]]:
    """The notes of code in a file of its own, and its names."""
    file = tmp_path / "program.py"
    file.write_text(text)
    names = UnsetNames({str(file)})
    with noting_unset(names):
        held = runpy.run_path(str(file))
        held["pickled"] = {k: cloudpickle.dumps(held[k]) for k in ("by_variable", "by_file") if k in held}
    return names, held


@pytest.mark.parametrize("name", ["by_variable", "by_file"])
def test_a_function_that_is_kept_runs_where_this_project_is_not(tmp_path: Path, name: str) -> None:
    _, held = run(tmp_path, KEEPING)
    for pickled in (held["pickled"][name], cloudpickle.dumps(held[name])):
        (tmp_path / "pickled").write_bytes(pickled)
        lines = "import sys, pickle; print(pickle.load(open(sys.argv[1], 'rb'))(0))"
        ran = subprocess.run(
            [sys.executable, "-c", lines, str(tmp_path / "pickled")],
            cwd="/",
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (ran.returncode, ran.stderr) == (0, "")


def test_a_copy_of_the_environment_is_pythons_own(tmp_path: Path) -> None:
    _, held = run(tmp_path, "import copy, os\nkept = copy.copy(os.environ), copy.deepcopy(os.environ)")
    assert {type(one) for one in held["kept"]} == {type(os.environ)} == {os._Environ}
    assert held["kept"][0]["PATH"] == os.environ["PATH"]
    assert copy.copy(os.environ) == os.environ


NOTED = [
    ("os.environ.get('NO_SUCH_RATE')", ["NO_SUCH_RATE"], []),
    ("os.environ.setdefault('NO_SUCH_RATE', '1'); os.environ.pop('NO_SUCH_RATE')", ["NO_SUCH_RATE"], []),
    ("os.environ.get('SPARK_HOME'), os.environ.get('NO_SUCH_PASSWORD'), os.environ.get('PATH')", [], []),
    ("dict(os.environ), os.environ.copy(), {**os.environ}", [EVERY_VARIABLE], []),
    ("os.path.exists('/no/such'), os.path.isfile('/no/such')", [], ["/no/such"]),
    ("pathlib.Path('/no/such').is_file()", [], ["/no/such"]),
    ("os.path.exists('/'), os.path.exists(b'/no/bytes')", [], ["/no/bytes"]),
    ("os.path.exists(987654)", [], []),
    ("open('made.txt', 'w').close(), open('made.txt').close()", [], []),
]


@pytest.mark.parametrize(("line", "variables", "files"), NOTED, ids=[line for line, _, _ in NOTED])
def test_what_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, variables: list[str], files: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NO_SUCH_RATE", raising=False)
    names, _ = run(tmp_path, f"import os, pathlib\n{line}")
    assert (names.variables, names.settings, names.files) == (variables, [], files)


def test_a_file_that_is_opened_in_vain(tmp_path: Path) -> None:
    text = "import pathlib\nfor read in (lambda: open('/no/1'), lambda: pathlib.Path('/no/2').read_text()):\n"
    names, _ = run(tmp_path, f"{text}    try:\n        read()\n    except OSError:\n        pass")
    assert names.files == ["/no/1", "/no/2"]


def test_nothing_is_noted_of_others_or_afterwards(tmp_path: Path) -> None:
    names, _ = run(tmp_path, "import pdb, urllib.request\nurllib.request.getproxies()")
    os.environ.get("NO_SUCH_RATE")
    assert not Path("/no/such").exists()
    pickle.dumps(names)
    assert (names.variables, names.files) == ([], [])
