"""Which jobs name a dataset, by what the Jobs API tells: a trigger on a table, texts of parameters."""

from typing import Any

import pytest

from recovery.contracts.results import NamedBy
from recovery.pipelines.naming_jobs import find_naming_jobs

ORDERS, VIEW = "main.shop.orders", "main.shop.daily"
TRIGGER, PARAMETER = NamedBy.TRIGGER, NamedBy.PARAMETER


def job(*tasks: dict[str, Any], **settings: Any) -> dict[str, Any]:
    return {"job_id": 7, "settings": {"name": "export", "tasks": [*tasks], **settings}}


def task(kind: str, **told: Any) -> dict[str, Any]:
    return {"task_key": "load", kind: told}


@pytest.mark.parametrize(
    ("told", "found"),
    [
        (job(trigger={"table_update": {"table_names": [ORDERS]}}), [(TRIGGER, "", "", ORDERS)]),
        (job(trigger={"file_arrival": {"url": f"s3://{ORDERS}/"}}), []),
        (job(parameters=[{"name": "table", "default": ORDERS}]), [(PARAMETER, "", "table", ORDERS)]),
        (
            job(task("notebook_task", notebook_path="/x", base_parameters={"t": ORDERS.upper()})),
            [(PARAMETER, "load", "t", ORDERS)],
        ),
        (
            job(task("spark_python_task", parameters=["--from", f"--table={ORDERS}"])),
            [(PARAMETER, "load", "", ORDERS)],
        ),
        (
            job(task("python_wheel_task", named_parameters={"sql": "select * from `main`.`shop`.`orders`;"})),
            [(PARAMETER, "load", "sql", ORDERS)],
        ),
        (
            job(task("sql_task", parameters={"a": f"{ORDERS},{VIEW}"})),
            [(PARAMETER, "load", "a", ORDERS), (PARAMETER, "load", "a", VIEW)],
        ),
        (job({"for_each_task": {"task": task("run_job_task", job_parameters={"t": VIEW})}}),
         [(PARAMETER, "load", "t", VIEW)]),
        (job(task("notebook_task", base_parameters={"t": f"{ORDERS}_old"})), []),
        (job(task("notebook_task", base_parameters={"t": f"x.{ORDERS}"})), []),
        (job(task("notebook_task", base_parameters={"t": "shop.orders"})), []),
        (job(task("notebook_task", notebook_path=f"/{ORDERS}")), []),
        (job(task("sql_task", query={"query_id": "q"})), []),
        ({"job_id": 7, "settings": {"tasks": "none", "parameters": "x", "trigger": []}}, []),
        ({}, []),
    ],
)  # fmt: skip
def test_a_job_names_a_dataset_by_its_whole_name_in_a_trigger_or_a_parameter(
    told: dict[str, Any], found: list[tuple[NamedBy, str, str, str]]
) -> None:
    named = find_naming_jobs([told], [ORDERS, VIEW])
    assert [(j.by, j.task, j.parameter, j.dataset) for j in named] == found


def test_a_name_that_stands_for_tables_of_several_catalogs_is_not_looked_for() -> None:
    assert (
        find_naming_jobs([job(parameters=[{"name": "t", "default": "shop.orders"}])], ["shop.orders"]) == ()
    )


def test_no_value_of_a_parameter_is_kept() -> None:
    told = job(task("notebook_task", base_parameters={"t": f"{ORDERS}?token=s3cret"}))
    (named,) = find_naming_jobs([told], [ORDERS])
    assert "s3cret" not in str(named)
