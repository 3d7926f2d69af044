"""A flow's sources are kept for later looks: passwords encrypted, topics with the ids that they first had."""

import json
from typing import Any

import pytest

from recovery import encryption
from recovery.contracts.readers import SourceReader
from recovery.errors import Refused
from recovery.models import Flow, FlowInput
from recovery.pipelines import inputs
from tests import factories as f

pytestmark = pytest.mark.django_db

PASSWORD = "open-sesame-1234"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{PASSWORD}";'


def kafka(**options: str) -> SourceReader:
    given = {"kafka.bootstrap.servers": "broker:9092", "subscribe": "orders", **options}
    return SourceReader("kafka", options=given, schema="not kept")


def rows(flow: Flow) -> list[FlowInput]:
    return list(FlowInput.objects.filter(flow=flow))


def test_a_source_is_noted_in_plan_order_with_its_place_in_peoples_words() -> None:
    flow = f.flow()

    inputs.note_sources(flow, [kafka(), SourceReader("json", "/in")], table="file:/warehouse/t")

    assert [(r.index, r.kind, r.place, r.table) for r in rows(flow)] == [
        (0, "kafka", "orders at broker:9092", "file:/warehouse/t"),
        (1, "files", "/in", "file:/warehouse/t"),
    ]


@pytest.mark.parametrize(
    ("reader", "place"),
    [
        (kafka(), "orders at broker:9092"),
        (SourceReader("kafka", options={"subscribePattern": "orders.*"}), "orders.* at unknown servers"),
        (SourceReader("table", "main.shop.orders", location="s3://b/t"), "main.shop.orders"),
        (SourceReader("delta", location="s3://b/t"), "s3://b/t"),
        (SourceReader("delta", "s3://key:open-sesame@b/t"), "s3://key:(withheld)@b/t"),
        (SourceReader("mine"), "unknown place"),
    ],
)
def test_a_place_names_what_is_read_and_no_password(reader: SourceReader, place: str) -> None:
    assert inputs.describe_place(reader) == place


def test_a_password_among_the_options_is_in_no_column_but_can_be_used() -> None:
    flow = f.flow()

    inputs.note_sources(flow, [kafka(**{"kafka.sasl.jaas.config": JAAS})])

    (stored,) = FlowInput.objects.values()
    assert PASSWORD not in repr(stored)
    assert inputs.read_reader(rows(flow)[0]).options["kafka.sasl.jaas.config"] == JAAS


def test_the_name_of_a_table_whose_place_is_not_known_is_kept_as_no_place() -> None:
    flow = f.flow()
    inputs.note_sources(flow, [SourceReader("parquet", "shop.orders", table="shop.orders")])
    assert inputs.read_reader(rows(flow)[0]).place == ""


def test_what_was_encrypted_under_a_former_secret_key_can_be_read_while_it_is_named(settings: Any) -> None:
    flow = f.flow()
    inputs.note_sources(flow, [kafka()])
    former, settings.SECRET_KEY = settings.SECRET_KEY, "another"

    with pytest.raises(Refused, match="REPRISE_SECRET_KEY_FALLBACKS"):
        inputs.read_reader(rows(flow)[0])
    settings.SECRET_KEY_FALLBACKS = [former]
    assert inputs.read_reader(rows(flow)[0]).format == "kafka"


def seen(flow: Flow) -> None:
    FlowInput.objects.filter(flow=flow).update(
        asked_at=f.ago(minutes=1), readable=True, why="All is there.", topic_ids={"orders": "first"}
    )


def test_the_same_code_studied_again_keeps_what_was_seen() -> None:
    flow = f.flow()
    inputs.note_sources(flow, [kafka()])
    seen(flow)

    inputs.note_sources(flow, [kafka()])

    assert [(r.readable, r.topic_ids) for r in rows(flow)] == [(True, {"orders": "first"})]


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({"subscribe": "orders,returns"}, {"orders": "first"}),
        ({"kafka.bootstrap.servers": "elsewhere:9092"}, {}),
    ],
)
def test_another_reader_is_looked_at_anew_and_keeps_ids_of_the_same_cluster(
    options: dict[str, str], ids: dict[str, str]
) -> None:
    flow = f.flow()
    inputs.note_sources(flow, [kafka()])
    seen(flow)

    inputs.note_sources(flow, [kafka(**options)])

    assert [(r.asked_at, r.readable, r.topic_ids) for r in rows(flow)] == [(None, None, ids)]
    assert inputs.all_noted_ids(flow) == {"0": ids}


def test_a_source_that_the_code_no_longer_has_is_forgotten_and_code_that_cannot_be_analysed_changes_nothing() -> (
    None
):
    flow = f.flow()
    inputs.note_sources(flow, [kafka(), kafka()])

    inputs.note_sources(flow, [kafka()])
    inputs.note_sources(flow, [])

    assert [r.index for r in rows(flow)] == [0]


@pytest.mark.parametrize(
    ("stored", "is_seen"),
    [
        ({"format": "json", "path": "/in", "options": {"a": "1"}, "location": "/in"}, True),
        ({"format": "json", "path": "/in", "options": None, "location": "/in"}, False),
        ({"format": 3}, False),
    ],
    ids=["as older releases store it", "another reader", "none"],
)
def test_a_stored_reader_is_compared_with_that_of_the_code(stored: dict[str, Any], is_seen: bool) -> None:
    flow = f.flow()
    reader = SourceReader("json", "/in", {"a": "1"}, schema="id int", location="/in")
    inputs.note_sources(flow, [reader])
    seen(flow)
    FlowInput.objects.filter(flow=flow).update(
        reader=encryption.encrypted(json.dumps(stored), inputs.PURPOSE)
    )

    inputs.note_sources(flow, [reader])

    (row,) = rows(flow)
    assert (row.readable is not None) is is_seen
    assert inputs.read_reader(row) == SourceReader("json", "/in", {"a": "1"}, location="/in")
