"""A plan says which defaults the code took."""

import pytest

from recovery.checkpoints.report import Severity
from recovery.spark.api import Study
from recovery.workflow.defaults import list_defaults_taken


@pytest.mark.parametrize(
    ("study", "is_plain", "named", "ways"),
    [
        (Study(unset_variables=("RATE",)), True, ["RATE"], ["env NAME=VALUE"]),
        (Study(unset_variables=("RATE",)), False, ["RATE"], ["spark_env_vars"]),
        (Study(absent_files=("rates.json",)), True, ["rates.json"], ["--argument FILE"]),
        (Study(unset_settings=("spark.a",)), True, ["spark.a"], ["--conf NAME=VALUE"]),
        (Study(unset_variables=("A",), unset_settings=("spark.a",)), False, ["A", "spark.a"],
         ["spark_env_vars", "configuration"]),
    ],
)  # fmt: skip
def test_each_name_and_where_to_give_it(
    study: Study, is_plain: bool, named: list[str], ways: list[str]
) -> None:
    (found,) = list_defaults_taken(study, is_plain=is_plain)
    assert (found.code, found.severity) == ("DEFAULTS_TAKEN", Severity.WARNING)
    assert all(name in found.says for name in named)
    assert all(way in found.do for way in ways)


def test_code_that_asks_for_nothing_has_no_finding() -> None:
    assert list(list_defaults_taken(Study(), is_plain=True)) == []
