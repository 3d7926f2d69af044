"""A failed proof names the missing rows with file and line, and the source file that was written again."""

from typing import Any

import pytest
from django.test import Client

from console.presenters import missing, verifying
from recovery.contracts import codec
from recovery.contracts.measured import ChangedFile, ChangedFiles, FileMark, Measured, RowOrigin
from recovery.models import Recovery
from tests import factories as f
from tests.pages import parse
from tests.unit.pages.reading import text

pytestmark = pytest.mark.django_db
FILE = "file:///in/a.json"
SAMPLE = {"key": {"id": "7", "kind": None}, "times": 2}


def measured(
    *, origins: tuple[RowOrigin, ...] = (), samples: tuple[Any, ...] = (SAMPLE,), **more: Any
) -> Measured:
    return Measured(samples={"missing": samples}, origins=origins, **more)


@pytest.mark.parametrize(
    ("origins", "places"),
    [
        ((), []),
        ((RowOrigin(0, FILE),), [(FILE, "not known", "not-known")]),
        ((RowOrigin(0, FILE, (2,), 3),), [(FILE, "2 of 3", "exact")]),
        ((RowOrigin(0, FILE, (1, 2, 9), 1200),), [(FILE, "1, 2 or 9 of 1,200", "several")]),
        ((RowOrigin(1, FILE, (2,), 3),), []),  # of another row
    ],
)
def test_a_missing_row_has_the_places_that_are_known_and_no_other(
    origins: tuple[RowOrigin, ...], places: list[tuple[str, str, str]]
) -> None:
    found = missing.missing_rows(measured(origins=origins))
    assert found is not None
    (row,) = found.rows
    assert (row.key, row.times) == (("7", "null"), "2")
    assert [(p.file, p.line, p.code) for p in row.places] == places
    assert found.located is bool(places)


def test_the_page_shows_file_line_and_owner(responder: Client) -> None:
    page = parse(text(responder, f"/recoveries/{f.not_proven().pk}/verify"))
    rows = [r.attributes["data-value"] for r in page.all("tr", data_code="missing-row")]
    assert rows == ["1004,3", "1007,2"]
    assert page.value("line-exact") == "2 of 3"
    assert page.value("line-several") == "1 or 3 of 3"
    assert "svc-crm-export" in page.one("missing-rows").text


def test_a_proof_of_an_older_release_says_that_no_place_is_known(responder: Client) -> None:
    recovery = f.not_proven()
    kept = {k: v for k, v in recovery.measured.items() if k not in ("origins", "changed_files", "owners")}
    Recovery.objects.filter(pk=recovery.pk).update(measured=kept)
    page = parse(text(responder, f"/recoveries/{recovery.pk}/verify"))
    assert page.one("origin-not-known")
    assert not {"changed-files", "file", "line-exact"} & set(page.codes)


def test_only_the_first_twenty_are_shown_and_the_others_counted() -> None:
    samples = tuple({"key": {"id": str(n)}, "times": 1} for n in range(30))
    criteria = [{"code": "EVERY_ROW_ONCE", "measured": {"missing": 90}}]
    found = missing.missing_rows(measured(samples=samples, criteria=criteria))
    assert found is not None
    assert (len(found.rows), found.more) == (20, 70)


CHANGES = {
    "after it was read": (FileMark(5, 1_001), FileMark(None, 1_001), FileMark(5, 9_001), "9.001"),
    "before it was read": (FileMark(5, 1_001), FileMark(None, 9_001), FileMark(5, 9_001), "9.001"),
    "removed": (FileMark(5, 1_001), FileMark(None, 1_001), None, "gone"),
    "not known of the seal": (None, FileMark(None, 1_001), FileMark(5, 9_001), "9.001"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_was_written_again_is_shown_at_three_moments(change: str) -> None:
    sealed, read, now, at = CHANGES[change]
    told = ChangedFiles(25, 30, (ChangedFile(FILE, sealed, read, now),))
    found = missing.changed_files(measured(changed_files=told))
    assert found is not None
    (row,) = found.rows
    assert (found.number, row.finding.code, row.read.size) == (25, "SOURCE_FILE_CHANGED", "not known")
    assert at in row.now.written
    assert row.sealed.size == ("5 B" if sealed else "not known")


@pytest.mark.parametrize("told", [None, ChangedFiles(0, 7)])
def test_no_cause_is_named_where_none_was_found_or_it_is_not_known(told: ChangedFiles | None) -> None:
    assert missing.changed_files(measured(changed_files=told)) is None


def test_what_is_stored_of_origins_and_changes_reads_back_as_it_was() -> None:
    kept = Measured(
        samples={"missing": (SAMPLE,)},
        origins=(RowOrigin(0, FILE, (2,), 3), RowOrigin(0, FILE)),
        changed_files=ChangedFiles(1, 2, (ChangedFile(FILE, None, FileMark(None, 5), None),)),
        owners={FILE: "ann"},
    )
    assert codec.read(Measured, codec.to_json(kept)) == kept


def test_rows_that_are_too_many_have_a_column_for_each_part_of_the_key() -> None:
    (sample,) = verifying.sample_rows(Measured(samples={"missing": (SAMPLE,), "extra": (SAMPLE,)}))
    assert (sample.title, sample.columns, sample.rows) == (
        "Extra",
        ["id", "kind", "times"],
        [["7", "null", "2"]],
    )


def test_a_proof_of_a_recovery_that_was_rolled_back_since_is_not_green(responder: Client) -> None:
    recovery = f.verified()
    page = parse(text(responder, f"/recoveries/{recovery.pk}/verify"))
    assert {"proven", "rolled-back"} & set(page.codes) == {"proven"}
    Recovery.objects.filter(pk=recovery.pk).update(state="rolled_back")
    page = parse(text(responder, f"/recoveries/{recovery.pk}/verify"))
    assert {"proven", "rolled-back"} & set(page.codes) == {"rolled-back"}
