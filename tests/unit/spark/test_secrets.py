"""No sentence holds what a reader's options hold."""

import pytest

from recovery.spark.secrets import HIDDEN, values, withheld

JAAS = 'org.x.ScramLoginModule required username="ann" password="p;w \'x" ;'


@pytest.mark.parametrize(
    ("options", "said", "shown"),
    [
        ({"kafka.sasl.jaas.config": JAAS}, f"cannot parse {JAAS}", f"cannot parse {HIDDEN}"),
        ({"kafka.sasl.jaas.config": JAAS}, "login of ann with p;w 'x failed", "login of *** with *** failed"),
        ({"kafka.sasl.jaas.config": "first line\nsecond"}, "cannot parse first line", "cannot parse ***"),
        ({"kafka.ssl.key.password": "ab"}, "a key ab is short", "a key *** is short"),
        ({"kafka.ssl.key.password": "ab"}, "a table", "a table"),
        ({"kafka.bootstrap.servers": "host-1:9092"}, "no answer of host-1:9092.", "no answer of ***."),
        ({"header": "true", "sep": ";", "n": "100"}, "true; 100", "true; 100"),
        ({"path": "/data/in", "subscribe": "orders"}, "no /data/in, no orders", "no /data/in, no orders"),
    ],
)
def test_a_value_is_taken_out_of_a_sentence(options: dict[str, str], said: str, shown: str) -> None:
    assert withheld(said, values(options)) == shown
