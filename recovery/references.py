"""Where a secret is that people name and never enter: `env:` and `file:` references, held to names meant for one use.

An admin of the console enters the reference, and the console sends what it finds to an address that the same admin
enters. Any name would let that admin send away a secret of the instance itself, so the name must say what it is for.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from recovery.errors import WrongUse

LARGEST: Final = 64 * 1024


@dataclass(frozen=True)
class Purpose:
    """`variable`: how names of variables begin; `file`: how names of files begin; `noun`: for whom they are."""

    variable: str
    file: str
    noun: str

    @property
    def rule(self) -> str:
        """The rule, as a form shows it."""
        return f"A reference is env:{self.variable}… or file:/folder/{self.file}…"

    def check(self, reference: str) -> str:
        """The reference, when its name is one for this purpose. Asks nothing. Raises WrongUse (`reference_name`)."""
        variable = re.compile(rf"env:{self.variable}[A-Z0-9_]{{1,80}}")
        file = re.compile(rf"file:/(?:[^\x00-\x1f]{{1,200}}/)?{self.file}[A-Za-z0-9._-]{{0,80}}")
        inside = ".." not in reference.partition(":")[2].split("/")
        if inside and (variable.fullmatch(reference) or file.fullmatch(reference)):
            return reference
        raise WrongUse(
            f"{self.rule}: the name must say that it is meant for {self.noun}.", code="reference_name"
        )


NOTIFICATIONS: Final = Purpose("REPRISE_NOTIFY_", "notify", "notifications")
WORKSPACES: Final = Purpose("REPRISE_WORKSPACE_", "workspace", "workspaces")


def is_reference(text: str) -> bool:
    """Does the text name a place, rather than being the secret?"""
    return text.startswith(("env:", "file:"))


def from_environment(name: str) -> str:
    """The value of a variable, "" where it is not set."""
    return os.environ.get(name, "").strip()


def from_file(path: str) -> str:
    """The text of a file. Raises OSError, and UnicodeDecodeError where it is not text."""
    with Path(path).open(encoding="utf-8") as file:
        return file.read(LARGEST).strip()
