"""A study names the variables and settings for which code took a default."""

import pytest

from tests.integration.spark_room import SIMPLE, Room

pytestmark = pytest.mark.spark
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
    assert (study.problem, study.unset_variables, study.unset_settings) == (None, variables, settings)


def test_what_a_library_asks_for_is_no_matter_of_the_code(room: Room) -> None:
    study = room.study(
        f"import sysconfig, webbrowser, pdb, urllib.request\nurllib.request.getproxies()\n{SIMPLE}"
    )
    assert (study.unset_variables, study.unset_settings) == ((), ())
