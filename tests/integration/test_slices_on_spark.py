"""The Spark room answers for sources that are no files: what a flow yields over slices of Kafka, Delta and files."""

import json
from typing import Any

import pytest

from recovery.sources.input_ranges import InputRange
from recovery.spark.api import Study
from tests.integration.spark_room import Room
from tests.kafka import KafkaBroker

pytestmark = pytest.mark.spark

SECRET = "hunter2-of-the-tests"


@pytest.fixture
def topic(kafka: KafkaBroker, request: pytest.FixtureRequest) -> str:
    """Three partitions: 10 records, 5 records, none; values are 0, 1, 2, … in each."""
    name = f"slices-{abs(hash(request.node.name))}"
    kafka.topic(name, 3)
    kafka.put(name, range(10), 0)
    kafka.put(name, range(100, 105), 1)
    return name


def reads(kafka: KafkaBroker, how: str, **options: str) -> str:
    """A flow over Kafka; `how` is the reader's choice of topics."""
    told = {"kafka.bootstrap.servers": kafka.address, "startingOffsets": "earliest", **options}
    return f"""
@dp.table
def t():
    reader = spark.readStream.format("kafka").options(**{told!r}).option({how})
    return reader.load().selectExpr("cast(value as string) as value", "topic", "partition", "offset")
"""


def between(topic: str, **spans: tuple[int, int]) -> InputRange:
    """A slice: `p0=(3, 7)` are the offsets 3 to 6 of partition 0."""
    start = {name[1:]: span[0] for name, span in spans.items()}
    end = {name[1:]: span[1] for name, span in spans.items()}
    return InputRange("kafka", start={topic: start}, end={topic: end})


def sliced(**labels: dict[int, InputRange]) -> dict[str, dict[str, Any]]:
    return {label: {str(i): s.as_dict() for i, s in parts.items()} for label, parts in labels.items()}


def values(found: Study, bare: Room, label: str, session: Any) -> list[str]:
    rows = session.read.parquet(str(bare.folder / "out" / label)).collect()
    assert found.rows[label] == len(rows)
    return sorted(r[0] for r in rows)


CHOICES = {
    "subscribe": lambda topic: f'"subscribe", "{topic}"',
    "pattern": lambda topic: f'"subscribePattern", "{topic[:-1]}."',
    "assign": lambda topic: f'"assign", {json.dumps(json.dumps({topic: [0, 1, 2]}))}',
}


@pytest.mark.parametrize("how", CHOICES)
def test_a_flow_yields_exactly_the_records_of_a_slice(
    bare: Room, kafka: KafkaBroker, topic: str, bare_session: Any, how: str
) -> None:
    code = reads(kafka, CHOICES[how](topic), maxOffsetsPerTrigger="3", failOnDataLoss="false")
    slices = sliced(
        waiting={0: between(topic, p0=(7, 10), p1=(5, 5), p2=(0, 0))},
        processed={0: between(topic, p0=(0, 7), p1=(0, 5))},
        nothing={0: between(topic, p0=(4, 4), p1=(5, 5), p2=(0, 0))},
        unnamed={},
    )
    write = {label: str(bare.folder / "out" / label) for label in slices}
    found = bare.study(code, slices=slices, write=write)
    assert found.problem is None
    assert values(found, bare, "waiting", bare_session) == ["7", "8", "9"]
    assert values(found, bare, "processed", bare_session) == sorted(
        [*map(str, range(7)), *map(str, range(100, 105))]
    )
    assert values(found, bare, "nothing", bare_session) == []
    assert values(found, bare, "unnamed", bare_session) == []
    assert found.columns == ("value", "topic", "partition", "offset")
    (source,) = found.sources
    assert (source.format, source.path, source.location) == ("kafka", None, None)


@pytest.mark.parametrize("empty", [True, False])
def test_headers_are_columns_where_the_reader_asks_for_them(
    bare: Room, kafka: KafkaBroker, topic: str, empty: bool
) -> None:
    kafka.put(topic, [1], 2, headers={"h": b"1"})
    code = reads(kafka, f'"subscribe", "{topic}"', includeHeaders="true").replace('"topic", ', '"headers", ')
    found = bare.look(
        code, slices=sliced(some={0: between(topic, p2=(0, 0 if empty else 1))}), key=("value", "headers")
    )
    assert (found.problem, found.rows) == (None, {"some": 0 if empty else 1})


def test_markers_of_transactions_are_no_rows(bare: Room, kafka: KafkaBroker, topic: str) -> None:
    kafka.transaction(topic, ["a", "b"], 2)
    kafka.transaction(topic, ["c"], 2, abort=True)
    code = reads(kafka, f'"subscribe", "{topic}"', **{"kafka.isolation.level": "read_committed"})
    found = bare.look(code, slices=sliced(all={0: between(topic, p2=(0, kafka.bounds(topic, 2)[1]))}))
    assert (found.problem, found.rows) == (None, {"all": 2})


def test_records_that_are_gone_stop_the_count(bare: Room, kafka: KafkaBroker, topic: str) -> None:
    kafka.delete_before(topic, 4)
    code = reads(kafka, f'"subscribe", "{topic}"', failOnDataLoss="false")
    found = bare.look(code, slices=sliced(all={0: between(topic, p0=(2, 10))}))
    assert (found.problem or "").startswith("The rows could not be counted: ")
    assert found.rows == {}


def test_two_topics_and_files_are_counted_together_by_label(
    bare: Room, kafka: KafkaBroker, topic: str
) -> None:
    other = f"{topic}-b"
    kafka.topic(other)
    kafka.put(other, ["x", "y"])
    code = (
        reads(kafka, f'"subscribe", "{topic}"').replace("    return reader", "    one = reader")
        + f"""
    two = spark.readStream.format("kafka").option("kafka.bootstrap.servers", "{kafka.address}")
    two = two.option("subscribe", "{other}").load()
    two = two.selectExpr("cast(value as string) as value", "topic", "partition", "offset")
    files = spark.readStream.schema("value string, topic string").json("IN/a")
    return two.unionByName(files, allowMissingColumns=True).unionByName(one)
"""
    )
    uri = bare.put("a/1.json", {"value": "f"})
    slices = sliced(
        all={0: between(other, p0=(0, 2)), 2: between(topic, p0=(9, 10))},
        one={2: between(topic, p1=(1, 2))},
        listed={1: InputRange("files", files=(uri,))},
    )
    found = bare.look(code, sets={"all": (uri,)}, slices=slices, by_file=True)
    assert found.problem is None
    assert [s.format for s in found.sources] == ["kafka", "json", "kafka"]
    assert found.rows == {"all": 4, "one": 1, "listed": 1}
    assert found.by_file == {}
    assert found.notes == ("Not every source of this flow is files, so there is no count by file.",)


BROKEN = {
    "a broker that is not there": {"kafka.bootstrap.servers": "no-such-host-of-ours.invalid:1"},
    "a login that is none": {
        "kafka.sasl.mechanism": "NO-SUCH-MECHANISM",
        "kafka.security.protocol": "SASL_PLAINTEXT",
    },
    "a setting that is none": {"kafka.security.protocol": SECRET},
    "a line that is torn": {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "PLAIN"},
}


@pytest.mark.parametrize("case", BROKEN)
def test_no_sentence_holds_what_an_option_holds(
    bare: Room, kafka: KafkaBroker, topic: str, case: str
) -> None:
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required\n username="u-x" password="{SECRET}"'
    options = {"kafka.sasl.jaas.config": login, "kafka.request.timeout.ms": "2000", **BROKEN[case]}
    options |= {"kafka.default.api.timeout.ms": "3000"}
    found = bare.look(
        reads(kafka, f'"subscribe", "{topic}"', **options), slices=sliced(x={0: between(topic, p0=(0, 1))})
    )
    assert found.problem
    told = [found.problem, *found.notes]
    assert not [text for text in told for value in (SECRET, "u-x", *BROKEN[case].values()) if value in text]
    assert found.sources[0].options["kafka.sasl.jaas.config"] == login


def test_a_source_that_nothing_can_read_again_is_said(bare: Room) -> None:
    code = '@dp.table\ndef t():\n    return spark.readStream.format("rate").load()\n'
    found = bare.look(code, sets={"x": ()})
    assert found.problem == "The flow reads from rate, which cannot be read again in batch."
