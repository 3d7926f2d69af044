"""Jobs that name a dataset: they start when it changes, or have its name as a parameter.

Facts: Jobs API 2.2, `jobs/list?expand_tasks=true`. `settings.trigger.table_update.table_names` is the one place where a
job declares a table; parameters of a job and of its tasks are texts. What a notebook, a program, a query or a dashboard
reads, no call tells: a job that is not found here may read the dataset all the same.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from recovery.contracts.results import NamedBy, NamingJob
from recovery.names import shown

PARAMETERS: Final = {
    "notebook_task": ("base_parameters",),
    "spark_python_task": ("parameters",),
    "spark_jar_task": ("parameters",),
    "spark_submit_task": ("parameters",),
    "python_wheel_task": ("parameters", "named_parameters"),
    "sql_task": ("parameters",),
    "run_job_task": (
        "job_parameters", "notebook_params", "python_named_params", "python_params", "jar_params", "sql_params",
        "spark_submit_params",
    ),
}  # fmt: skip
"""Where a task keeps texts that its program gets; all of them are lists, or texts by name."""
PARTS: Final = 3
"""A name of fewer parts stands for other tables in other catalogs."""


def find_naming_jobs(jobs: Iterable[Mapping[str, object]], datasets: Iterable[str]) -> tuple[NamingJob, ...]:
    """Each job, once for each way in which it names one of these datasets by its full name; no value is kept."""
    wanted = {name.lower(): name for name in datasets if name.count(".") == PARTS - 1}
    naming: dict[NamingJob, None] = {}
    for job in jobs:
        settings = _mapping(job.get("settings"))
        number, name = job.get("job_id"), shown(str(settings.get("name") or job.get("job_id")))
        for by, task, parameter, text in _texts(settings):
            for dataset in _named_in(text, wanted):
                named = NamingJob(
                    job_id=number if isinstance(number, int) else 0,
                    name=name[:300],
                    dataset=dataset,
                    by=by,
                    task=shown(task)[:200],
                    parameter=shown(parameter)[:200],
                )
                naming[named] = None
    return tuple(naming)


def _named_in(text: str, wanted: Mapping[str, str]) -> list[str]:
    """Whole names alone: `main.shop.orders_old` does not name `main.shop.orders`."""
    names = re.findall(r"[\w-]+(?:\.[\w-]+)*", text.lower().replace("`", ""))
    return [wanted[name] for name in dict.fromkeys(names) if name in wanted]


def _texts(settings: Mapping[str, object]) -> Iterator[tuple[NamedBy, str, str, str]]:
    """How it is named, task, parameter, text."""
    for _, table in _items(
        _mapping(_mapping(settings.get("trigger")).get("table_update")).get("table_names")
    ):
        yield NamedBy.TRIGGER, "", "", table
    for parameter in _list(settings.get("parameters")):
        declared = _mapping(parameter)
        yield NamedBy.PARAMETER, "", str(declared.get("name") or ""), str(declared.get("default") or "")
    for task in _tasks(settings):
        key = str(task.get("task_key") or "")
        for kind, fields in PARAMETERS.items():
            for field in fields:
                for name, text in _items(_mapping(task.get(kind)).get(field)):
                    yield NamedBy.PARAMETER, key, name, text


def _tasks(settings: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    for listed in _list(settings.get("tasks")):
        task = _mapping(listed)
        yield task
        # a task that runs once for each of a list carries its own task inside
        yield _mapping(_mapping(task.get("for_each_task")).get("task"))


def _items(value: object) -> list[tuple[str, str]]:
    """The texts of a list, or of a mapping with their names."""
    if isinstance(value, Mapping):
        return [(str(name), text) for name, text in value.items() if isinstance(text, str)]
    return [("", text) for text in _list(value) if isinstance(text, str)]


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
