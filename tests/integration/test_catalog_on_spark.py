"""What Spark's catalog says of a table by its path is told from what this Spark cannot read."""

from pathlib import Path
from typing import Any

import pytest

from recovery.errors import Refused
from recovery.spark import catalog

pytestmark = pytest.mark.spark


def test_a_format_without_its_connector_is_no_missing_table(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "BY_PATH", catalog.BY_PATH | {"hudi"})
    assert catalog.table(spark, f"parquet.`{tmp_path / 'nothing'}`") is None
    with pytest.raises(Refused) as refusal:
        catalog.table(spark, f"hudi.`{tmp_path / 'nothing'}`")
    assert refusal.value.code == "no_connector"
