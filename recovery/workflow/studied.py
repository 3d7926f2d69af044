"""What Spark is asked of a flow's code, and what it said, as facts that a decision may look at."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from recovery import variables
from recovery.spark.api import (
    FROM_CODE,
    FROM_OLD_CODE,
    FROM_STATE,
    NAMED,
    WHOLE_ROW,
    Answers,
    Study,
    StudyRequest,
)
from recovery.strategies.base import CodeFacts, CommittedRows, Counts, GroupRows, KeyKind

KEY_KINDS: Mapping[str, KeyKind] = {
    NAMED: KeyKind.NAMED,
    FROM_CODE: KeyKind.CODE,
    FROM_OLD_CODE: KeyKind.OLD_CODE,
    FROM_STATE: KeyKind.STATE,
    WHOLE_ROW: KeyKind.WHOLE_ROW,
}


def code_request(
    answers: Answers, flow: str, spec: Mapping[str, Any], libraries: tuple[str, ...], files: Mapping[str, str]
) -> StudyRequest:
    """What the Spark room needs to analyse the code of `flow`, verbatim; it counts nothing. `spec`: the pipeline's."""
    return StudyRequest(
        answers=answers,
        files=dict(files),
        root=spec.get("root_path") or "",
        libraries=libraries,
        configuration=dict(spec.get("configuration") or {}),
        catalog=spec.get("catalog") or "spark_catalog",
        schema=spec.get("schema") or spec.get("target") or "default",
        flow=flow,
        variables=variables.of_settings(spec),
    )


def code_facts(files: Mapping[str, str], answer: Study) -> CodeFacts:
    return CodeFacts(
        files=dict(files),
        operators=answer.operators,
        problem=answer.problem,
        problem_code=answer.problem_code,
        sources=tuple(answer.sources),
        key=tuple(answer.key or ()),
        key_from=answer.key_from,
        key_kind=_kind(answer),
        windows=answer.windows,
        groups=GroupRows(answer.groups),
        varies=answer.varies,
        watermarked=answer.watermarked,
        is_row_per_key=answer.is_row_per_key,
        absent=answer.absent,
        misfit=answer.misfit,
    )


def _kind(answer: Study) -> KeyKind:
    """A key that a person named is the code's own where its dropDuplicates has the same columns."""
    own, named = ({c.lower() for c in columns or ()} for columns in (answer.dedupe, answer.key))
    return KeyKind.CODE if own and own == named else KEY_KINDS[answer.key_from]


def counts(answer: Study) -> Counts:
    return Counts(
        table=answer.table_rows,
        processed=answer.rows.get("processed"),
        waiting=answer.rows.get("waiting"),
        everything=answer.rows.get("everything"),
        repeats_waiting=answer.repeats.get("waiting"),
        fresh_waiting=answer.fresh.get("waiting"),
        fresh_everything=answer.fresh.get("everything"),
        repeats_everything=_repeats(answer, "everything"),
        reread=answer.rows.get("reread"),
        skipped=answer.rows.get("skipped"),
        by_file=dict(answer.by_file),
        table_keys=answer.lacking.table_keys if answer.lacking else None,
        beyond=answer.lacking.beyond if answer.lacking else None,
        unfit=answer.lacking.unfit if answer.lacking else (),
        committed=CommittedRows(**asdict(answer.committed)) if answer.committed else None,
    )


def _repeats(answer: Study, label: str) -> int | None:
    """Rows beyond one per key; None where no key is known, or they were not counted."""
    rows, distinct = answer.rows.get(label), answer.distinct.get(label)
    return None if not answer.key or rows is None or distinct is None else rows - distinct
