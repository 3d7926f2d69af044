"""The short form of `python -m tests.chaos`: one recovery under a few strikes, on an instance of its own."""

import json
import subprocess
import sys

import pytest

from tests.stack import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.alone]


def test_a_recovery_under_strikes_loses_and_doubles_nothing() -> None:
    """A full disk is among the strikes of this seed, where one can be mounted."""
    given = {"--kills": 1, "--each": 4, "--at-once": 1, "--seed": 26, "--minutes": 3}
    options = [str(word) for pair in given.items() for word in pair]
    command = [sys.executable, "-m", "tests.chaos", *options]
    done = subprocess.run([*command, "--json"], cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.stdout, done.stderr[-3000:]
    report = json.loads(done.stdout)
    assert report["kills"] >= 1, done.stderr
    zeros = {name: report[name] for name in ("lost", "doubled", "double_resets", "chain_breaks")}
    assert (set(zeros.values()), report["not_good"], done.returncode) == ({0}, [], 0), (zeros, done.stderr)
