"""Logs that Spark 4.2 with Delta 4.4 wrote, with the line of a stream that reads them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from recovery.sources import delta
from recovery.sources.base import StartChoice
from recovery.sources.delta_facts import DeltaFacts, DeltaOffset
from recovery.sources.live import delta as live

LOGS = Path(__file__).parents[2] / "fixtures" / "delta_logs"


def told(name: str, line: str | None = None, **options: Any) -> tuple[str, DeltaFacts]:
    held = line or (LOGS / name / "offset").read_text().strip()
    return held, live.read_table(str(LOGS / name), offsets=[held], options=options, look=False)


def test_inside_a_version_every_number_is_counted() -> None:
    line, facts = told("within-version")
    assert delta.label_position(line, facts) == "version 1, file 2 of 4"
    option, latest = (
        delta.find_start_option(line, facts),
        delta.find_position(StartChoice(latest=True), line, facts),
    )
    assert option.doubled
    assert latest.lost.rows
    assert latest.lost.files
    assert (option.doubled.value, latest.lost.rows.value, latest.lost.files.value) == (4, 8, 4)
    assert latest.offset_json == DeltaOffset(facts.table_id, 3).as_json()


def test_what_vacuum_may_take_bounds_the_time() -> None:
    """OPTIMIZE has removed the files that wait; VACUUM may take them a week after."""
    line, facts = told("vacuumed")
    operations = [facts.commits[v].operation for v in sorted(facts.commits)]
    assert operations == ["WRITE", "WRITE", "OPTIMIZE", "VACUUM START", "VACUUM END"]
    removed = dict(facts.commits[3].removed)
    waits = facts.commits[1].files[2].path
    by_vacuum = replace(facts, log_retention_ms=None)  # the log's files here are as old as the checkout
    assert delta.judge_reach(line, by_vacuum).until_ms == removed[waits] + 7 * 24 * 3_600_000
    assert not facts.commits[3].files
    assert delta.measure_distance(line, DeltaOffset(facts.table_id, 6).as_json(), facts).files


@pytest.mark.parametrize(("version", "files"), [(1, 2), (2, 3), (3, 2), (4, 1), (5, 0)])
def test_a_change_feed_reads_its_own_files_where_there_are_some(version: int, files: int) -> None:
    _, facts = told("change-feed")
    _, facts = told("change-feed", DeltaOffset(facts.table_id, 1).as_json(), readChangeFeed="true")
    assert len(facts.commits[version].files) == files
    own = [f.path.startswith("_change_data/") for f in facts.commits[version].files]
    assert own == [version in (3, 4)] * files


def test_a_renamed_column_is_told_with_its_version() -> None:
    line, facts = told("renamed")
    assert facts.column_mapping
    why = delta.judge_reach(line, facts).why
    assert "The schema before version 5 cannot be read" in why
    assert "schemaTrackingLocation" in why
    before = DeltaOffset(facts.table_id, 1).as_json()
    assert "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE" in delta.judge_reach(*told("renamed", before)).why
    after = DeltaOffset(facts.table_id, 5).as_json()
    assert "columns were renamed" not in delta.judge_reach(*told("renamed", after)).why
