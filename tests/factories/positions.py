"""Sources as a look finds them: a topic with partitions, a directory, one that nobody could ask."""

import json
from collections.abc import Mapping
from typing import Any

from recovery.checkpoints.report import SourceEntry
from recovery.contracts import codec
from recovery.models import Flow, PositionsLook, Recovery
from recovery.sources import file_facts, files, kafka, position_requests, position_view
from recovery.sources.base import InputFile, Position, Precision, SourceFacts, StartChoice
from recovery.sources.kafka_facts import KafkaFacts, PartitionFacts, TopicFacts
from tests.factories.flows import ago
from tests.factories.wizard import at_patch

TOPIC = "crm.customers.changes"
NOON = int(ago(hours=2).timestamp() * 1000)


def topic(partitions: int = 3, at: int = 500, gone: int = 0) -> tuple[str, KafkaFacts]:
    """The offset line of a topic whose partitions all stand at `at`, and what its broker says. The first `gone`
    partitions begin behind it; the last has no record of NOON or later."""
    there = {
        n: PartitionFacts(
            low=at + 40 if n < gone else 100,
            high=at + 250 + n,
            times={at: NOON - 1000},
            at={NOON: None if n == partitions - 1 else at + 200},
        )
        for n in range(partitions)
    }
    line = json.dumps({TOPIC: {str(n): at for n in range(partitions)}}, separators=(",", ":"))
    held = TopicFacts("id-1", there, retention_ms=5 * 3600 * 1000, plain=True)
    return line, KafkaFacts(NOON, {TOPIC: held}, {TOPIC: None})


def kafka_source(wanted: StartChoice | None = None, partitions: int = 3, gone: int = 0) -> dict[str, Any]:
    line, told = topic(partitions, gone=gone)
    start = kafka.find_position(wanted, line, told) if wanted else None
    begins, end = (
        start.offset_json if start else line,
        kafka.find_position(StartChoice(latest=True), line, told).offset_json,
    )
    found = SourceFacts(
        Position(0, "kafka", line, kafka.label_position(line), Precision.EXACT, True),
        TOPIC,
        start=start,
        unread=kafka.measure_distance(begins, end, told),
        reach=kafka.judge_reach(begins, told),
        option=kafka.find_start_option(begins, told),
        facts=told,
    )
    return codec.to_json(position_view.show_source(found))


def file_source(wanted: StartChoice | None = None) -> dict[str, Any]:
    names = [f"file:///nowhere/in/changes-000{n}.json" for n in range(1, 8)]
    told = files.FileSourceFacts(
        log=tuple(SourceEntry(path, NOON + n * 60_000, n // 2) for n, path in enumerate(names[:4])),
        listing=tuple(InputFile(path, 702, NOON + n * 60_000) for n, path in enumerate(names)),
        asked_ms=NOON + 3_600_000,
    )
    line = '{"logOffset":1}'
    found = SourceFacts(
        Position(1, "files", line, "file 4 of 7, changes-0004.json", Precision.EXACT, True),
        "file:///nowhere/in/changes",
        start=files.find_position(wanted, line, told) if wanted else None,
        unread=file_facts.measure_files(names[4:], told),
        reach=files.judge_reach(line, told),
        option=files.find_start_option(line, told),
        facts=told,
    )
    return codec.to_json(position_view.show_source(found, index=1))


def unknown_source() -> dict[str, Any]:
    position = Position(2, "unknown", '{"page":7}', '{"page":7}', Precision.UNKNOWN, None)
    found = SourceFacts(position, "unknown place", problem="Nobody could ask this source.")
    return codec.to_json(position_view.show_source(found, index=2))


def looked(
    wanted: Mapping[str, StartChoice], sources: list[dict[str, Any]], status: str = "ready", **values: Any
) -> dict[str, Any]:
    """A look that came to its end."""
    asked = {key: position_requests.as_dict(one) for key, one in wanted.items()}
    begun = ago(seconds=20).isoformat()
    return {"status": status, "ticket": "t-1", "problem": None, "started_at": begun, "at": ago(seconds=12).isoformat(),
            "asked": asked, "wishes": asked, "sources": sources, **values}  # fmt: skip


def at_positions(
    of: Flow | None = None, look: dict[str, Any] | None = None, strategy: str = "continue", **values: Any
) -> Recovery:
    """On the page of start offsets, with this look."""
    made = at_patch(of, strategy)
    slot = {name: value for name, value in (look or {}).items() if name != "sources"}
    Recovery.objects.filter(pk=made.pk).update(
        choices={**made.choices, **({"positions_look": slot} if look else {}), **values}
    )
    if look:
        PositionsLook.objects.update_or_create(recovery=made, defaults={"sources": look["sources"]})
    made.refresh_from_db()
    return made


def at_committed(of: Flow | None = None, strategy: str = "continue") -> Recovery:
    return at_positions(of, looked({}, [kafka_source(), file_source()]), strategy)


def at_a_time(of: Flow | None = None) -> Recovery:
    """A topic put to a time that one partition does not have, and files left where they were."""
    wanted = {"0": StartChoice(at_ms=NOON)}
    return at_positions(of, looked(wanted, [kafka_source(wanted["0"]), file_source()]))


def at_earliest_chosen(of: Flow | None = None) -> Recovery:
    wanted = {"0": StartChoice(earliest=True)}
    look = looked(wanted, [kafka_source(wanted["0"], gone=1), file_source(), unknown_source()])
    return at_positions(of, look, positions=look["wishes"])


def with_many(of: Flow | None = None, partitions: int = 1000) -> Recovery:
    """One partition of many set by hand."""
    wanted = {"0": StartChoice(parts={f"{TOPIC}-7": StartChoice(by_hand="600")})}
    return at_positions(of, looked(wanted, [kafka_source(wanted["0"], partitions)]))


def with_a_part(of: Flow | None = None) -> Recovery:
    """One partition put to a time, the others where they were committed."""
    wanted = {"0": StartChoice(parts={f"{TOPIC}-1": StartChoice(at_ms=NOON)})}
    return at_positions(of, looked(wanted, [kafka_source(wanted["0"]), file_source()]))


MAPPING: dict[str, Any] = {
    "pairs": [
        {"old": "0", "new": "0", "certainty": "certain", "why": f"Both read {TOPIC}.", "confirm": ""},
        {"old": "1", "new": "2", "certainty": "likely",
         "why": "The old one read /nowhere/in, the new one reads /nowhere/in/changes; they meet in /nowhere/in.",
         "confirm": "Does /nowhere/in/changes continue what was read of /nowhere/in?"},
    ],
    "added": [{"new": "1", "asks": "Source 1 (orders) is new: nothing was read of it. Choose where it starts: the "
               "earliest reads all its rows, the latest none that are there now."}],
    "dropped": [{"old": "2", "says": "No source of the code continues source 2 (legacy): 40 rows that wait there are "
                 "never read."}],
    "notes": ["The sources are in another order than before; the offset lines are put in the new one."],
    "unconfirmed": ["1->2", "2->"],
}  # fmt: skip


def other_sources(of: Flow | None = None) -> Recovery:
    """The code has other sources than the checkpoint: one pair and one dropped source to be confirmed, one added."""
    made = at_positions(of, looked({}, [kafka_source(), file_source()]))
    options = [{**o, "mapping": MAPPING} if o["strategy"] == "continue" else o for o in made.facts["options"]]
    Recovery.objects.filter(pk=made.pk).update(facts={**made.facts, "options": options})
    made.refresh_from_db()
    return made


def look_failed(of: Flow | None = None) -> Recovery:
    said = "Kafka at broker:9092 does not answer. Start it, or mend the address, then look again."
    return at_positions(of, looked({}, [kafka_source()], "failed", problem=said))


def look_working(of: Flow | None = None) -> Recovery:
    return at_positions(of, looked({}, [], "working"))
