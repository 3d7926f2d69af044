"""Who reads the flow's table, as the inventory knows it. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class DownstreamReader:
    """A dataset downstream of the flow's table, as the inventory knows it, nearest first.

    `dataset` and `flow` by full name. `view`: computed again by each update; else a table that reads a stream.
    `pipeline`: of another pipeline, its name; "" of this one. `state`: of its flow in the inventory.
    `inputs`: the datasets that it reads, by full name. `late_inputs`: those of them that do not stand below the flow's
    table and are behind themselves, or empty.
    """

    dataset: str
    flow: str
    view: bool
    state: str = "ok"
    pipeline: str = ""
    emptied: bool = False
    inputs: tuple[str, ...] = ()
    late_inputs: tuple[str, ...] = ()
