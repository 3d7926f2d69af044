"""Judges one damage: what `inspect` predicts, and what Spark does."""

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recovery.checkpoints import inspect_checkpoint
from recovery.checkpoints.absent import KeepsState
from recovery.checkpoints.report import CheckpointReport, Outcome
from tests.damages import frozen
from tests.damages.bases import Base, Place, Rows, run
from tests.damages.bases_more import ALL_BASES
from tests.damages.case import Case
from tests.damages.frozen import UUID, Entries, is_sidecar, main_of

WRAPPERS = {"STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR"}
CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]{5,}(?:\.[A-Z0-9_]+)?)\]")
CALLING = re.compile(
    r"(Py4JJavaError: )?An error occurred while calling \S+\n: "
)  # a session without Connect
# Of a machine that is busy, not of the damage: Spark gives the worker ten seconds.
NO_ANSWER = "Python worker failed to connect back"
SAID = 90  # characters of a failure without a condition
SHOWN_FILES = 4
BY_NAME = "sidecar"  # in place of the bytes
UNDO_NOTE = re.compile(r"flow/\.reprise-\w+\.undo\.json")
ASIDE = {"each", "elsewhere", "old"}  # beside the checkpoint, its table and its input


class Snapshots:
    """Good checkpoints, copied for every damage; `good` gives what Spark wrote, by the base's name."""

    def __init__(self, root: Path, good: Callable[[str], Entries] = frozen.load) -> None:
        self.root, self.good = root, good
        self.copies = 0

    def place(self, name: str) -> Place:
        """A fresh copy of this base; the copy before it is removed."""
        shutil.rmtree(self.root / f"copy-{self.copies}", ignore_errors=True)
        self.copies += 1
        copy = self.root / f"copy-{self.copies}"
        frozen.lay_out(self.good(name), copy)
        return Place(copy)


@dataclass(frozen=True)
class Prediction:
    """What is known of a damage without Spark. `files`: those touched; `codes`: of the findings; `predicted`: the
    outcome; `digest`: of all that lies there then, and of how Spark is to run."""

    damage: str
    base: str
    files: tuple[str, ...]
    codes: tuple[str, ...]
    predicted: str
    digest: str


@dataclass(frozen=True)
class Judged(Prediction):
    """One row of the table: a prediction, and the `outcome` that Spark came to, with its `detail`."""

    outcome: str
    detail: str

    @property
    def agree(self) -> bool:
        """Whether the predicted outcome is Spark's."""
        return self.predicted == self.outcome

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "files": list(self.files), "codes": list(self.codes)}


def judge(spark: Any, snapshots: Snapshots, case: Case) -> Judged:
    """Damage a fresh copy, predict, run, and look at the rows."""
    place, base = snapshots.place(case.base), ALL_BASES[case.base]
    prediction = foretell(place, case)
    conf = base.conf if case.conf is None else case.conf
    failure = run(spark, place, base, max_files=case.max_files, conf=conf, options=base.later)
    assert NO_ANSWER not in failure, failure
    outcome, detail = _observe(spark, place, base, failure)
    return Judged(**vars(prediction), outcome=outcome.value, detail=detail)


def foretell(place: Place, case: Case) -> Prediction:
    """Damage this copy of the case's base, and predict."""
    base = ALL_BASES[case.base]
    before = _content(place)
    keeps_state = KeepsState.YES if (place.checkpoint / "state").is_dir() else KeepsState.NO
    case.hurt(place)
    after = _content(place)
    report = predict(place, base, case, keeps_state=keeps_state)
    return Prediction(
        damage=case.name,
        base=case.base,
        files=_changed(before, after),
        codes=tuple(sorted({f.code for f in report.findings})),
        predicted=report.outcome.value,
        digest=digest(after, case.max_files, case.conf, base.later),
    )


def predict(place: Place, base: Base, case: Case, *, keeps_state: KeepsState) -> CheckpointReport:
    """As a person would ask who knows the code: the flow's directory, and its table where the table is Spark's own."""
    table = str(place.table) if base.file_sink and place.table.exists() else None
    return inspect_checkpoint(
        str(place.flow), sink=table, deep=case.deep, inputs=True, keeps_state=keeps_state
    )


def _content(place: Place) -> dict[str, str]:
    """What is where, by name: a file's bytes, a link's target, or that it is a directory. Paths below the place are
    as in an archive; then checksum files say nothing of their own."""
    here = f"{place.root}/"
    content = {}
    for path in place.root.rglob("*"):
        name = str(path.relative_to(place.root))
        if path.is_symlink():
            content[name] = f"-> {path.readlink()}".replace(here, f"{frozen.ROOT}/")
        elif path.is_dir():
            content[name] = "directory"
        else:
            data = path.read_bytes().replace(here.encode(), f"{frozen.ROOT}/".encode())
            content[name] = data.hex()
    return content


def digest(content: dict[str, str], *how: int | Mapping[str, str] | None) -> str:
    """Digest of files, and of how Spark is run on them. Of checksum files, and of what a repair notes for its undo
    with a time (Spark reads it never), the names alone count."""
    files = sorted(
        (name, BY_NAME if is_sidecar(name) or UNDO_NOTE.fullmatch(name) else data)
        for name, data in content.items()
    )
    return hashlib.sha256(json.dumps([files, how], default=dict).encode()).hexdigest()


def digest_of(place: Place) -> str:
    """Digest of all that lies there."""
    return digest(_content(place))


def _changed(before: dict[str, str], after: dict[str, str]) -> tuple[str, ...]:
    """Names that were touched, without checksum files that went with theirs and what lies in a named directory."""
    touched = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))
    inside = {n for n in touched if "/" in n and n.split("/")[0] not in ASIDE}
    named = [n for n in touched if n in inside and not (is_sidecar(n) and main_of(n) in inside)]
    top = [n for n in named if not any(n.startswith(f"{m}/") for m in named)]
    shown = [UUID.sub("<uuid>", n) for n in top]
    shown = sorted({re.sub(r"part-\d+.*", "part-….parquet", n.removeprefix("flow/0/")) for n in shown})
    return (
        *shown[:SHOWN_FILES],
        *([f"and {len(shown) - SHOWN_FILES} more"] if len(shown) > SHOWN_FILES else []),
    )


def _observe(spark: Any, place: Place, base: Base, failure: str) -> tuple[Outcome, str]:
    if failure:
        return Outcome.FAILS, said(failure, place)
    try:
        rows = base.read(spark, place)
    except Exception as error:
        return Outcome.UNREADABLE_TABLE, said(str(error), place)
    return counted(rows, wanted(place, base))


def wanted(place: Place, base: Base) -> Rows:
    """The rows that must be there; files that a damage put in addition are read too."""
    put = {*base.put.get(0, ()), *base.pending.get(0, ())}
    more = {int(p.stem[-3:]) for p in place.input().glob("part *.json")} - put
    return Rows((*base.right, *more))


def counted(rows: Rows, right: Rows) -> tuple[Outcome, str]:
    lost, doubled = (right - rows).total(), (rows - right).total()
    if lost:
        return Outcome.LOSES, f"{lost} of {right.total()} rows lost" + (
            f", {doubled} too many" if doubled else ""
        )
    if doubled:
        return Outcome.DOUBLES, f"{doubled} rows too many"
    return Outcome.GOES_ON, "exactly the right rows"


def said(failure: str, place: Place) -> str:
    """The innermost condition of a failure, else its first words without paths and ids."""
    conditions = [c for c in CONDITION.findall(failure) if c not in WRAPPERS and not c.startswith("_LEGACY")]
    if conditions:
        return str(conditions[-1])
    text = CALLING.sub("", failure).split("terminated with exception: ", 1)[-1]
    text = text.split("\n")[0].split(" SQLSTATE:")[0]
    text = re.sub(r"(file:)?/\S*/", "…/", text.replace(str(place.root), ""))
    return UUID.sub("<uuid>", text)[:SAID].strip()
