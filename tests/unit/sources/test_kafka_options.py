"""The reader's options, as Spark's Java client has them, for the client that asks; secrets stay out of words."""

from typing import Any

import pytest
from confluent_kafka import IsolationLevel
from confluent_kafka.admin import AdminClient

from recovery.errors import Refused
from recovery.sources.live.kafka_options import reader_of

SERVERS = {"kafka.bootstrap.servers": "one:9092,two:9092"}
SECRET = 'a "good; secret=1'
JAAS = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required\n"
    r' username="ann" password="a \"good; secret=1";'
)


def test_topics_are_read_by_name() -> None:
    reader = reader_of({**SERVERS, "subscribe": "a, b.c"})
    assert (reader.reads("a"), reader.reads("b.c"), reader.reads("b-c")) == (True, True, False)
    assert reader.missing({"a": None}) == {"b.c": None}


def test_topics_are_read_by_pattern_as_a_whole_name() -> None:
    reader = reader_of({**SERVERS, "subscribePattern": "orders\\..*"})
    assert (reader.reads("orders.eu"), reader.reads("old-orders.eu")) == (True, False)
    assert reader.missing({}) == {}


def test_partitions_are_assigned() -> None:
    reader = reader_of({**SERVERS, "assign": '{"a":[0,2]}'})
    assert reader.only("a") == {0, 2}
    assert reader.missing({}) == {"a": {0, 2}}


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("read_committed", IsolationLevel.READ_COMMITTED),
        ("read_uncommitted", IsolationLevel.READ_UNCOMMITTED),
        (None, IsolationLevel.READ_UNCOMMITTED),
    ],
)
def test_records_of_transactions_are_seen_as_the_reader_sees_them(
    name: str | None, level: IsolationLevel
) -> None:
    more = {} if name is None else {"kafka.isolation.level": name}
    assert reader_of({**SERVERS, **more}).isolation is level


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({}, {"security.protocol": "plaintext"}),
        (
            {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN", "kafka.sasl.jaas.config": JAAS},
            {"security.protocol": "sasl_ssl", "sasl.mechanism": "PLAIN", "sasl.username": "ann"}
            | {"sasl.password": SECRET},
        ),
        ({"kafka.ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        (
            {"kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": "/ca.pem"},
            {"ssl.ca.location": "/ca.pem"},
        ),
        (
            {"kafka.ssl.keystore.type": "PEM", "kafka.ssl.keystore.location": "/k.pem"},
            {"ssl.certificate.location": "/k.pem", "ssl.key.location": "/k.pem"},
        ),
        ({"kafka.group.id": "g", "kafka.max.poll.records": "7", "failOnDataLoss": "false"}, {}),
    ],
)  # fmt: skip
def test_settings_become_those_of_the_client_that_asks(
    options: dict[str, str], settings: dict[str, str]
) -> None:
    found = reader_of({**SERVERS, **options}).settings
    assert found == {"bootstrap.servers": "one:9092,two:9092", "security.protocol": "plaintext", **settings}


def test_the_client_takes_these_settings() -> None:
    options = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "SCRAM-SHA-512"}
    more = {"kafka.sasl.jaas.config": JAAS, "kafka.ssl.endpoint.identification.algorithm": ""}
    settings: dict[str, Any] = dict(reader_of({**SERVERS, **options, **more}).settings)
    AdminClient(
        {**settings, "log_level": 0, "bootstrap.servers": "127.0.0.1:1"}
    )  # raises for one it does not know


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kafka.bootstrap.servers": " "}, "no option kafka.bootstrap.servers"),
        (
            {
                "kafka.sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required keyTab=hidden;"
            },
            "neither",
        ),
        (
            {"kafka.sasl.jaas.config": "x.PlainLoginModule required username=ann hidden;"},
            "neither a PLAIN nor",
        ),
        ({"kafka.ssl.truststore.location": "/hidden.jks"}, "Java key store"),
        (
            {"kafka.ssl.keystore.location": "/hidden.jks", "kafka.ssl.keystore.type": "PKCS12"},
            "Java key store",
        ),
        ({"subscribePattern": "("}, "subscribePattern cannot be followed"),
        ({"assign": "{"}, "assign cannot be read"),
        ({"assign": '{"a":["0"]}'}, "does not name partitions of a"),
        ({"assign": '{"a":3}'}, "does not name partitions of a"),
    ],
)
def test_what_cannot_be_followed_is_refused_without_a_secret(options: dict[str, str], says: str) -> None:
    with pytest.raises(Refused) as told:
        reader_of({**SERVERS, **options})
    assert says in told.value.sentence
    assert "hidden" not in told.value.sentence


def test_no_secret_is_shown_with_the_reader() -> None:
    assert "good" not in repr(reader_of({**SERVERS, "kafka.sasl.jaas.config": JAAS}))
