"""The reader's options, as Spark and its Java client have them, for the client that is used here (librdkafka).

Source: KafkaSourceProvider (which options), ConsumerStrategy (subscribe, subscribePattern, assign); librdkafka's
CONFIGURATION.md. A value may be a secret: no sentence holds one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import IsolationLevel

from recovery.checkpoints.formats import Malformed, object_of
from recovery.contracts.readers import ReaderOptions
from recovery.errors import Refused
from recovery.linear import Linear

SERVERS = "bootstrap.servers"
# Settings that both clients know by one name and that decide who may ask, and how.
SAME = {
    SERVERS, "client.id", "client.dns.lookup", "security.protocol", "sasl.kerberos.service.name",
    "ssl.cipher.suites", "ssl.key.password", "ssl.keystore.password", "socket.connection.setup.timeout.ms",
}  # fmt: skip
USER = re.compile(r"""\b(username|password)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;]+)""")
LOGIN = re.compile(r"(?<![\w.])[\w.]*\.(PlainLoginModule|ScramLoginModule)\b")


@dataclass(frozen=True)
class KafkaReader:
    """Which topics are read, from which brokers, and how. `assigned`: topic -> partitions (option `assign`)."""

    servers: str
    settings: Mapping[str, str] = field(repr=False)
    topics: frozenset[str] = frozenset()
    pattern: Linear | None = None
    assigned: Mapping[str, frozenset[int]] = field(default_factory=dict)
    isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED

    @property
    def isolation_name(self) -> str:
        return self.isolation.name.lower()

    def reads(self, topic: str) -> bool:
        """Whether a topic of this name is read."""
        return (
            topic in self.topics
            or topic in self.assigned
            or bool(self.pattern and self.pattern.fullmatch(topic))
        )

    def only(self, topic: str) -> frozenset[int] | None:
        """The partitions that are assigned; None: all of them."""
        return self.assigned.get(topic)

    def missing(self, known: Mapping[str, Any]) -> dict[str, frozenset[int] | None]:
        """Topics that are read by name and are not there."""
        return {t: self.only(t) for t in sorted({*self.topics, *self.assigned} - known.keys())}


def reader_of(options: ReaderOptions) -> KafkaReader:
    """The reader that these options make. Raises Refused where one is missing, or cannot be followed here."""
    lower = {str(key).lower(): str(value) for key, value in options.items()}
    given = {key.removeprefix("kafka."): value for key, value in lower.items() if key.startswith("kafka.")}
    if not given.get(SERVERS, "").strip():
        raise Refused(
            "The reader has no option kafka.bootstrap.servers, so it is not known which Kafka to ask."
        )
    topics = frozenset(t.strip() for t in lower.get("subscribe", "").split(",") if t.strip())
    return KafkaReader(
        given[SERVERS],
        _translate_settings(given),
        topics,
        _parse_pattern(lower.get("subscribepattern")),
        _parse_assigned(lower.get("assign")),
        _isolation_level(given.get("isolation.level", "read_uncommitted")),
    )


def _isolation_level(name: str) -> IsolationLevel:
    committed = name.strip().lower() == "read_committed"
    return IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED


def _parse_pattern(text: str | None) -> Linear | None:
    if text is None:
        return None
    try:
        return Linear(text.strip())
    except ValueError as problem:
        raise Refused(
            "The reader's subscribePattern cannot be followed here; name its topics with subscribe."
        ) from problem


def _parse_assigned(text: str | None) -> dict[str, frozenset[int]]:
    if text is None:
        return {}
    try:
        body = object_of(text)
    except Malformed as problem:
        raise Refused(f"The reader's option assign cannot be read: {problem.why}.") from problem
    assigned = {}
    for topic, numbers in body.items():
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise Refused(f"The reader's option assign does not name partitions of {topic} by their numbers.")
        assigned[topic] = frozenset(numbers)
    return assigned


def _translate_settings(given: Mapping[str, str]) -> dict[str, str]:
    """Settings of librdkafka that say what these of the Java client say; of the rest none decides who may ask."""
    settings = {key: value for key, value in given.items() if key in SAME}
    settings["security.protocol"] = settings.get("security.protocol", "PLAINTEXT").lower()
    if mechanism := given.get("sasl.mechanism"):
        settings["sasl.mechanism"] = mechanism
    if "sasl.jaas.config" in given:
        settings |= _translate_login(given["sasl.jaas.config"])
    if "ssl.endpoint.identification.algorithm" in given:
        asked = given["ssl.endpoint.identification.algorithm"].strip().lower()
        settings["ssl.endpoint.identification.algorithm"] = asked or "none"
    return settings | _translate_certificates(given)


def _translate_login(text: str) -> dict[str, str]:
    """User and password of a PLAIN or SCRAM login, which the Java client takes as one line of JAAS."""
    fields = {m[1]: _unquote_text(m[2]) for m in USER.finditer(text)}
    if not LOGIN.search(text) or set(fields) != {"username", "password"}:
        raise Refused(
            "The reader's kafka.sasl.jaas.config is neither a PLAIN nor a SCRAM login with a user and a password; "
            "other logins cannot be used from here."
        )
    return {f"sasl.{name}": value for name, value in fields.items()}


def _unquote_text(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1]) if text[0] in "\"'" else text


def _translate_certificates(given: Mapping[str, str]) -> dict[str, str]:
    """PEM stores are the same for both clients; a Java key store cannot be read here."""
    settings = {}
    for store, names in {
        "truststore": {"location": "ssl.ca.location", "certificates": "ssl.ca.pem"},
        "keystore": {"certificate.chain": "ssl.certificate.pem", "key": "ssl.key.pem"},
    }.items():
        if f"ssl.{store}.location" in given and given.get(f"ssl.{store}.type", "JKS").upper() != "PEM":
            raise Refused(
                f"The reader's kafka.ssl.{store}.location is a Java key store, which cannot be read here; give a PEM "
                f"file and kafka.ssl.{store}.type PEM."
            )
        if store == "keystore" and "ssl.keystore.location" in given:
            settings["ssl.certificate.location"] = settings["ssl.key.location"] = given[
                "ssl.keystore.location"
            ]
        settings |= {
            ours: given[f"ssl.{store}.{name}"]
            for name, ours in names.items()
            if f"ssl.{store}.{name}" in given
        }
    return settings
