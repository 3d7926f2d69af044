"""All flows and versions below a pipeline's storage root, and what is wrong between flows."""

import json
import shutil
from pathlib import Path

import pytest

from recovery.checkpoints.survey import is_storage_root, survey_root
from recovery.errors import Unreachable
from tests.checkpoint_builder import Built


def storage(tmp_path: Path, *flows: str, versions: int = 2) -> Path:
    for flow in flows:
        for number in range(versions):
            Built(tmp_path / "st/_checkpoints/spark_catalog/shop" / flow / str(number), operators=()).write()
    return tmp_path / "st"


def test_every_version_of_every_flow_is_listed(tmp_path: Path) -> None:
    root = storage(tmp_path, "orders/orders", "customers/load")
    found = survey_root(str(root))
    assert [f.parts for f in found.flows] == [
        ("spark_catalog", "shop", "customers", "load"),
        ("spark_catalog", "shop", "orders", "orders"),
    ]
    assert [v.number for v in found.flows[0].versions] == [0, 1]
    assert {v.last_committed for f in found.flows for v in f.versions} == {2}
    assert found.flows[0].versions[0].position == (("0", '{"logOffset":2}'),)
    assert found.findings == ()
    json.dumps(found.as_dict())


WITHIN = "_checkpoints/spark_catalog/shop"


@pytest.mark.parametrize("below", ["_checkpoints", WITHIN, f"{WITHIN}/orders/orders"])
def test_a_survey_may_begin_at_any_directory_above_the_versions(tmp_path: Path, below: str) -> None:
    root = storage(tmp_path, "orders/orders")
    assert [f.name for f in survey_root(str(root / below)).flows] == ["orders"]


def test_versions_above_nine_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    root = storage(tmp_path, "orders/orders", versions=12)
    assert [v.number for v in survey_root(str(root)).flows[0].versions] == list(range(12))


def test_a_table_whose_name_is_a_number_is_no_version(tmp_path: Path) -> None:
    root = storage(tmp_path, "2024/load")
    assert [f.parts[-2:] for f in survey_root(str(root)).flows] == [("2024", "load")]


def test_a_renamed_flow_begins_again_with_the_old_one_s_input(tmp_path: Path) -> None:
    root = storage(tmp_path, "orders/b_old", versions=1)
    Built(root / "_checkpoints/spark_catalog/shop/orders/a_new/0", batches=1, operators=()).write()
    for file in root.glob("_checkpoints/spark_catalog/shop/orders/a_new/0/offsets/0"):
        file.write_text(file.read_text().replace("17900000", "17990000"))
    found = survey_root(str(root)).findings
    assert [f.code for f in found] == ["FLOW_RENAMED"]
    assert [word for word in found[0].says.split() if "_" in word] == ["a_new", "b_old"]


def begins(root: Path, flow: str, batches: int, at_ms: int) -> None:
    """A flow that read its first files at this time; the first one's batches are at 1 790 000 000 000 and after."""
    where = root / f"_checkpoints/spark_catalog/shop/orders/{flow}/0"
    Built(where, batches=batches, operators=()).write()
    for file in where.glob("offsets/[0-9]*"):
        old = 1_790_000_000_000 + int(file.name)
        file.write_text(file.read_text().replace(str(old), str(at_ms + int(file.name))))


@pytest.mark.parametrize(
    ("batches", "later_ms", "told"),
    [
        (3, 1, False),  # the old flow still planned batches when the new one began
        (3, 10, False),  # both began in one update and have read the same files
        (4, 10, True),  # it went on where the old one had stopped
        (3, 70_000, True),  # in a later update the old one has planned nothing
        (1, 70_000, True),
    ],
)
def test_flows_that_read_the_same_input_side_by_side_were_not_renamed(
    tmp_path: Path, batches: int, later_ms: int, told: bool
) -> None:
    root = storage(tmp_path, "orders/old", versions=1)
    begins(root, "new", batches, 1_790_000_000_000 + later_ms)
    assert [f.code for f in survey_root(str(root)).findings] == ["FLOW_RENAMED"] * told


def test_a_storage_root_is_known_by_its_checkpoints(tmp_path: Path) -> None:
    root = storage(tmp_path, "orders/orders", versions=1)
    assert is_storage_root(str(root))
    assert is_storage_root(str(root / "_checkpoints"))
    assert not is_storage_root(str(root / "_checkpoints/spark_catalog/shop/orders/orders/0"))


def test_a_link_that_leads_back_ends(tmp_path: Path) -> None:
    root = storage(tmp_path, "orders/orders", versions=1)
    (root / "_checkpoints/spark_catalog/again").symlink_to(root / "_checkpoints", target_is_directory=True)
    assert {f.parts[-1] for f in survey_root(str(root)).flows} == {"orders"}


def test_a_place_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="does not exist"):
        survey_root(str(tmp_path / "no"))


def test_flows_with_one_query_id_are_named_once_for_each_id(tmp_path: Path) -> None:
    root = storage(tmp_path, "a/a", "b/b", versions=1)
    within = root / "_checkpoints/spark_catalog/shop"
    shutil.copytree(within / "a/a", within / "c/c")
    found = survey_root(str(root)).findings
    assert [(f.code, f.severity.value) for f in found if f.code != "FLOW_RENAMED"] == [
        ("QUERY_ID_SHARED", "blocker")
    ]
    assert all(name in found[0].says for name in ("shop/a/a", "shop/c/c"))
