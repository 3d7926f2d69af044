"""What this instance may read by its settings, and whom its addresses may name."""

from pathlib import Path
from typing import Any

import pytest

from recovery.checkpoints import access
from recovery.checkpoints.storage import Store
from recovery.errors import RepriseError
from recovery.outbound import parse_allowed
from recovery.reach import _Guard


def code_at(location: str) -> str:
    """How opening a place is refused; "" where it is not, whether or not something is there."""
    try:
        Store.open(location)
    except RepriseError as refusal:
        return refusal.code
    return ""


@pytest.mark.parametrize(
    ("place", "code"),
    [
        ("{home}/secret", "storage_hidden"),
        ("{home}", "storage_hidden"),
        ("{home}/storage/customers", ""),
        ("{home}/warehouse/main", ""),
        ("{home}/environments/production/storage/customers", ""),
        ("{home}/environments/production/pipelines.token", "storage_hidden"),
        ("{home}/environments/else/storage/customers", "storage_hidden"),
        ("/etc/passwd", "storage_hidden"),
        ("/nowhere/x", ""),
        ("~/.aws", "storage_hidden"),
        ("~/data", ""),
    ],
)
def test_by_default_the_console_and_the_machine_are_hidden_and_data_may_lie_anywhere_else(
    place: str, code: str, settings: Any
) -> None:
    assert code_at(place.format(home=settings.REPRISE_HOME)) == code


def test_the_operators_folders_are_an_allow_list(settings: Any, tmp_path: Path) -> None:
    settings.REPRISE_DATA_ROOTS = f"{tmp_path / 'a'}, {tmp_path / 'b'}"
    places = (tmp_path / "a/x", tmp_path / "b", tmp_path / "c", Path(settings.REPRISE_HOME) / "storage/x")
    assert [code_at(str(place)) for place in places] == ["", "", "storage_root", ""]


def test_who_is_at_the_machine_opens_any_place(settings: Any) -> None:
    with access.allow_anywhere():
        assert code_at(str(settings.REPRISE_HOME)) == ""
    assert code_at(str(settings.REPRISE_HOME)) == "storage_hidden"


@pytest.mark.parametrize(
    ("host", "named", "allow", "code"),
    [
        ("8.8.8.8", False, "", "storage_host"),  # public, and nobody named it
        ("8.8.8.8", True, "", ""),
        ("127.0.0.1", True, "", "outbound"),
        ("127.0.0.1", True, "127.0.0.1", ""),
        ("127.0.0.1", False, "127.0.0.1", ""),
        ("10.1.2.3", False, "10.0.0.0/8", ""),
        ("::1", True, "", "outbound"),
        ("169.254.169.254", True, "169.254.0.0/16", "outbound"),
    ],
)
def test_a_machine_is_called_where_somebody_named_it_and_it_is_public_or_allowed(
    host: str, named: bool, allow: str, code: str
) -> None:
    guard = _Guard(parse_allowed(allow))
    found = ""
    try:
        guard(host, 8020, named)
    except RepriseError as refusal:
        found = refusal.code
    assert found == code


def test_an_endpoint_of_s3_that_may_not_be_called_gets_no_request(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.REPRISE_OUTBOUND_ALLOW = ""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert code_at("s3://bucket/x") == "outbound"
    settings.REPRISE_OUTBOUND_ALLOW = "127.0.0.1"
    assert code_at("s3://bucket/x") == ""
