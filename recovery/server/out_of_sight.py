"""Tells a file that pipelines' code is kept from, from one that is not there: both are "no such file" to the code."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from recovery.server.confinement import Confinement, PathAccess

PATH: Final = re.compile(r"(?<![\w./-])(?:file:/*(?=/))?(/[\w.,@+=/-]+)")
MOST: Final = 200  # paths looked at in one message: it is the code's to choose


def hint_of_hidden_file(exceptions: Iterable[dict[str, Any]], confinement: Confinement) -> str:
    """What to do about an error that names a file in a hidden place; empty where none does.

    Whether the file exists is neither asked nor said: the code's author would learn what is there.
    """
    sight = confinement.sights()
    for link in exceptions:
        for named in PATH.findall(str(link.get("message", "")))[:MOST]:
            if len(named) < 4096 and sight(Path(named)) is PathAccess.HIDDEN:
                return (
                    f"Pipelines' code is kept from {named}: where it holds data, name its folder in REPRISE_DATA_ROOTS "
                    "(then everything else is hidden), or move it."
                )
    return ""
