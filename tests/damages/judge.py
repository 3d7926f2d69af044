"""Runs one damage: what `inspect` predicts, and what Spark does."""

import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recovery.checkpoints import inspect
from recovery.checkpoints.report import CheckpointReport, Outcome
from tests.damages.bases import Base, Place, Rows, Snapshots, run
from tests.damages.case import Case

WRAPPERS = {"STREAM_FAILED", "FOREACH_BATCH_USER_FUNCTION_ERROR"}
CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]{5,}(?:\.[A-Z0-9_]+)?)\]")
CALLING = re.compile(
    r"(Py4JJavaError: )?An error occurred while calling \S+\n: "
)  # a session without Connect
SAID = 90  # characters of a failure without a condition
SHOWN_FILES = 4


@dataclass(frozen=True)
class Judged:
    """One row of the table. `agree`: the predicted outcome is Spark's."""

    damage: str
    base: str
    files: tuple[str, ...]
    codes: tuple[str, ...]
    predicted: str
    outcome: str
    detail: str

    @property
    def agree(self) -> bool:
        return self.predicted == self.outcome

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "files": list(self.files), "codes": list(self.codes)}


def judge(spark: Any, snapshots: Snapshots, case: Case) -> Judged:
    """Damage a fresh copy, predict, run, and look at the rows."""
    place, base = snapshots.place(case.base), snapshots.bases[case.base]
    before = _content(place)
    case.hurt(place)
    files = _changed(before, _content(place))
    report = predict(place, base, case)
    conf = base.conf if case.conf is None else case.conf
    failure = run(spark, place, base, max_files=case.max_files, conf=conf, options=base.later)
    outcome, detail = _observe(spark, place, base, failure)
    return Judged(
        damage=case.name,
        base=case.base,
        files=files,
        codes=tuple(sorted({f.code for f in report.findings})),
        predicted=report.outcome.value,
        outcome=outcome.value,
        detail=detail,
    )


def predict(place: Place, base: Base, case: Case) -> CheckpointReport:
    """As a person would ask: the flow's directory, and its table where the table is Spark's own."""
    table = str(place.table) if base.file_sink and place.table.exists() else None
    return inspect(str(place.flow), sink=table, deep=case.deep, inputs=True)


def _content(place: Place) -> dict[str, str]:
    """What is where, by name: a file's bytes, a link's target, or that it is a directory."""
    found = {}
    for path in (*place.flow.rglob("*"), *place.table.rglob("*"), *place.root.glob("in*/*")):
        name = str(path.relative_to(place.root))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        else:
            found[name] = "directory" if path.is_dir() else path.read_bytes().hex()
    return found


def _changed(before: dict[str, str], after: dict[str, str]) -> tuple[str, ...]:
    """Names that were touched, without sidecars that went with their file and what lies in a named directory."""
    touched = sorted(n for n in before.keys() | after.keys() if before.get(n) != after.get(n))
    named = [n for n in touched if not (_is_sidecar(n) and _main(n) in touched)]
    top = [n for n in named if not any(n.startswith(f"{m}/") for m in named)]
    shown = [re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>", n) for n in top]
    shown = sorted({re.sub(r"part-\d+.*", "part-….parquet", n.removeprefix("flow/0/")) for n in shown})
    return (
        *shown[:SHOWN_FILES],
        *([f"and {len(shown) - SHOWN_FILES} more"] if len(shown) > SHOWN_FILES else []),
    )


def _is_sidecar(name: str) -> bool:
    last = Path(name).name
    return last.startswith(".") and last.endswith(".crc")


def _main(name: str) -> str:
    return str(Path(name).with_name(Path(name).name[1:-4]))


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
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "<uuid>", text)
    return text[:SAID].strip()
