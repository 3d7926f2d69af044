"""Input folders, and what Spark's file source was seen to list of them.

tests/unit/sources compares `listing` with this every day; tests/integration/test_checkpoints_on_spark.py asks Spark.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

EPOCH = 1_700_000_000
# In the order of their times.
FILES = (
    "in/plain/a.json",
    "in/plain/b.txt",
    "in/plain/_c.json",
    "in/plain/.d.json",
    "in/plain/deep/e.json",
    "in/plum/f.json",
    "in/plum/g.json",
    "in/_tmp/h.json",
    "in/.tmp/i.json",
    "in/top.json",
    "in/_top.json",
    "in/late.json._COPYING_",
    "in/_metadata.json",
    "in/plus+100%.json",
    "parted/day=1/_x=1/g.json",
    "parted/day=2/_x=1/h i%20.json",
    "parted/day=3/_x=ü/j.json",
    "parted/_tmp/k.json",
)


@dataclass(frozen=True)
class ListedInput:
    """`files` are those that Spark read of `path` with these options, oldest first."""

    path: str
    files: tuple[str, ...]
    options: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return " ".join([self.path, *(f"{name}={value}" for name, value in self.options.items())])


TOP = ("in/top.json", "in/_metadata.json", "in/plus+100%.json")
PLAIN = ("in/plain/a.json", "in/plain/b.txt")
PLUM = ("in/plum/f.json", "in/plum/g.json")
PARTED = ("parted/day=1/_x=1/g.json", "parted/day=2/_x=1/h i%20.json", "parted/day=3/_x=ü/j.json")
LISTED = (
    ListedInput("in", TOP),
    ListedInput("in", (*PLAIN, "in/plain/deep/e.json", *PLUM, *TOP), {"recursiveFileLookup": "true"}),
    ListedInput("in", TOP, {"pathGlobFilter": "*.json"}),
    ListedInput("in/*", (*PLAIN, *PLUM, "in/_tmp/h.json", "in/.tmp/i.json", *TOP)),
    ListedInput("in/plain/*", (*PLAIN, "in/plain/deep/e.json")),
    ListedInput("in/pl{ain,um}", (*PLAIN, *PLUM)),
    ListedInput("in/pl?m/[!g]*.json", ("in/plum/f.json",)),
    ListedInput("parted/day=3", PARTED[2:]),
    ListedInput("in/[_]t*", ("in/_tmp/h.json",)),
    ListedInput("parted", PARTED),
    ListedInput("parted", PARTED, {"RecursiveFileLookup": "TRUE"}),
    ListedInput("parted", (PARTED[0], PARTED[2]), {"pathglobfilter": "?.json"}),
)


def put_files(root: Path) -> None:
    """All of `FILES` below `root`, each a second younger than the one before."""
    for number, name in enumerate(FILES):
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text('{"k": 1}\n')
        os.utime(file, (EPOCH + number, EPOCH + number))
