"""A study names the variables, settings and files for which code took a default."""

import pytest

from recovery.contracts.measured import AbsentInputs
from recovery.spark.programs_words import CHECKPOINT, ENGINE, PLAIN
from tests.integration.spark_room import SCHEMA, SIMPLE, Room

pytestmark = pytest.mark.spark
OF_PROGRAM = {ENGINE: PLAIN, CHECKPOINT: "/checkpoints/c"}
PROGRAM = f"""
from pyspark.sql import SparkSession
rows = SparkSession.builder.getOrCreate().readStream.schema("{SCHEMA}").json("IN/a")
rows.writeStream.format("parquet").option("checkpointLocation", "/checkpoints/c").start("/tables/none")
"""
ASKS = [
    ("import os\nos.environ.get('RATE', '1')", ("RATE",), ()),
    ("import os\nos.getenv('RATE')", ("RATE",), ()),
    ("from os import environ\n'RATE' in environ", ("RATE",), ()),
    ("import os\ntry:\n    os.environ['RATE']\nexcept KeyError:\n    pass", ("RATE",), ()),
    ("import os\nos.environ.get('GIVEN', '1')\nos.environ.get('HOME')", (), ()),
    ("import os\nos.environ.get('API_TOKEN')", (), ()),
    ("spark.conf.get('spark.orders.rate', '1')", (), ("spark.orders.rate",)),
    (
        "spark.conf.get('spark.orders.given', '1')\nspark.conf.get('spark.sql.shuffle.partitions', '7')",
        (),
        (),
    ),
]


@pytest.mark.parametrize(("line", "variables", "settings"), ASKS, ids=[line for line, _, _ in ASKS])
def test_what_code_asks_for_and_does_not_get(
    room: Room, line: str, variables: tuple[str, ...], settings: tuple[str, ...]
) -> None:
    study = room.study(
        f"{line}\n{SIMPLE}", variables={"GIVEN": "3"}, configuration={"spark.orders.given": "3"}
    )
    assert (study.problem, study.absent) == (None, AbsentInputs(variables, settings))


def test_what_a_library_asks_for_is_no_matter_of_the_code(room: Room) -> None:
    study = room.study(
        f"import sysconfig, webbrowser, pdb, urllib.request\nurllib.request.getproxies()\n{SIMPLE}"
    )
    assert study.absent == AbsentInputs()


LOOKS = [
    "import os\nos.path.exists('rates.json')",
    "from os.path import isfile\nisfile('rates.json')",
    "from pathlib import Path\nPath('rates.json').exists()",
    "try:\n    open('rates.json')\nexcept OSError:\n    pass",
    "from pathlib import Path\ntry:\n    Path('rates.json').read_text()\nexcept OSError:\n    pass",
]


@pytest.mark.parametrize("line", LOOKS)
@pytest.mark.parametrize("plain", [True, False], ids=["program", "pipeline"])
def test_a_file_that_code_looks_for_in_vain(room: Room, line: str, plain: bool) -> None:
    study = (
        room.study(f"{line}\n{PROGRAM}", configuration=OF_PROGRAM)
        if plain
        else room.study(f"{line}\n{SIMPLE}")
    )
    assert (study.problem, study.absent) == (None, AbsentInputs(files=("rates.json",)))
