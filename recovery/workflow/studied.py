"""What Spark said of a flow's code, as facts that a decision may look at."""

from collections.abc import Mapping

from recovery.spark.api import Study
from recovery.strategies.base import CodeFacts, Counts


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
