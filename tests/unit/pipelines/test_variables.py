"""Environment variables of a pipeline's code, read from its settings."""

from typing import Any

import pytest

from recovery.variables import of_settings

A, B = {"S3_BUCKET": "a"}, {"S3_BUCKET": "b", "MORE": "x"}
CASES: list[tuple[Any, dict[str, str]]] = [
    (None, {}),
    ([], {}),
    ([{"spark_env_vars": A}], A),
    ([{"label": "default", "spark_env_vars": A}], A),
    ([{"label": "updates", "spark_env_vars": B}, {"label": "default", "spark_env_vars": A}], B),
    ([{"label": "maintenance", "spark_env_vars": A}], {}),
    ([{"spark_env_vars": None}, {"num_workers": 1}, "x"], {}),
    ([{"spark_env_vars": {"S3_BUCKET": "a", "N": 1}}], A),
]


@pytest.mark.parametrize(("clusters", "found"), CASES)
def test_the_variables_of_updates_count(clusters: Any, found: dict[str, str]) -> None:
    assert of_settings({"clusters": clusters}) == found
