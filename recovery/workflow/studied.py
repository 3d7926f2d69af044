"""What Spark is asked of a flow's code, and what it said, as facts that a decision may look at."""

from collections.abc import Mapping
from typing import Any

from recovery.spark.api import Study, StudyRequest
from recovery.strategies.base import CodeFacts, Counts


def code_request(
    remote: str, flow: str, spec: Mapping[str, Any], libraries: tuple[str, ...], files: Mapping[str, str]
) -> StudyRequest:
    """What the Spark room needs to analyse the code of `flow`, verbatim; it counts nothing. `spec`: the pipeline's."""
    return StudyRequest(
        remote=remote,
        files=dict(files),
        root=spec.get("root_path") or "",
        libraries=libraries,
        configuration=dict(spec.get("configuration") or {}),
        catalog=spec.get("catalog") or "spark_catalog",
        schema=spec.get("schema") or spec.get("target") or "default",
        flow=flow,
    )


def code_facts(files: Mapping[str, str], answer: Study) -> CodeFacts:
    return CodeFacts(
        files=dict(files),
        operators=answer.operators,
        problem=answer.problem,
        sources=tuple(answer.sources),
        key=tuple(answer.key or ()),
        key_from=answer.key_from,
        windows=answer.windows,
    )


def counts(answer: Study) -> Counts:
    return Counts(
        table=answer.table_rows,
        processed=answer.rows.get("processed"),
        waiting=answer.rows.get("waiting"),
        everything=answer.rows.get("everything"),
        repeats_waiting=answer.repeats.get("waiting"),
        fresh_waiting=answer.fresh.get("waiting"),
        repeats_processed=answer.repeats.get("processed"),
        reread=answer.rows.get("reread"),
        skipped=answer.rows.get("skipped"),
        by_file=dict(answer.by_file),
    )
