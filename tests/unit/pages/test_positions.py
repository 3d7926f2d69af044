"""Start offsets through their page: looked up first, chosen with their costs named, nothing by itself."""

import html
import re
from typing import Any

import pytest
from django.test import Client

from console.presenters.positions import source_card
from recovery.contracts import codec
from recovery.contracts.positions import PositionChange, ShownSource
from recovery.models import AuditEntry, Recovery
from recovery.sources.base import StartChoice
from recovery.workflow import broker
from tests import factories as f
from tests.factories import positions as p
from tests.pages import Element, asked, refusal, shown
from tests.unit.pages.reading import text

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def broker_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker, "check", lambda: None)


def address(of: Recovery) -> str:
    return f"/recoveries/{of.pk}/positions"


def plain(page: str) -> str:
    """What a person reads: without tags, entities and line breaks."""
    words = re.sub(r"</?(wbr|time|b|code|a|span)\b[^>]*>", "", page)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", words)).split())


KEPT_UNTIL = re.compile(r"until .*\d\d:\d\d:\d\d UTC, in (2 h \d\d min\.|3 h)")


def moved(page: Element, part: str) -> tuple[str, str, list[str]]:
    """One part before and after, and the codes of what that changes."""
    row = page.row(part)
    return row.cell("Committed"), row.cell("Starts at"), row.codes


def choices(of: Recovery) -> dict[str, Any]:
    of.refresh_from_db()
    return dict(of.choices)


def test_before_the_first_look_the_page_says_what_holds_and_offers_the_look(responder: Client) -> None:
    page = asked(responder, address(p.at_positions()))
    assert page.one("not-looked")
    assert (page.primary() or {})["value"] == "look"


@pytest.mark.parametrize("strategy", ["revert", "full-refresh", "repair"])
def test_a_strategy_without_positions_has_nothing_to_choose(responder: Client, strategy: str) -> None:
    page = asked(responder, address(p.at_positions(look=p.looked({}, []), strategy=strategy)))
    assert page.one("takes-no-positions")
    assert not page.all(id="look")


def test_a_look_that_runs_is_said_and_asked_about(responder: Client) -> None:
    page = asked(responder, address(p.look_working()))
    assert page.one("looking")
    assert page.all(hx_trigger="every 1s")


def test_a_look_that_failed_says_why_and_what_is_shown_instead(responder: Client) -> None:
    of = p.look_failed()
    page = asked(responder, address(of))
    assert of.choices["positions_look"]["problem"] in page.one("look-failed").text
    assert page.one("look-before")


def test_where_every_source_stays_nothing_is_selected_and_nothing_costs(responder: Client) -> None:
    of = p.at_committed()
    page = asked(responder, address(of))
    assert moved(page, "crm.customers.changes-0") == ("500", "the same", [])
    assert page.one("as-committed-exactly")
    assert not page.all(id="choose")
    assert not page.all(selected=True)
    assert (page.primary() or {})["href"] == f"/recoveries/{of.pk}/patch"


LISTED = codec.read(ShownSource, p.file_source())


@pytest.mark.parametrize(
    ("changed", "line", "says"),
    [
        ({}, LISTED.after.offset_json, ("at most 8 rows, 3 files, 2.1 KiB", "at most")),
        ({"files": 2}, LISTED.after.offset_json, ("3 files, 2.1 KiB", "exact in files; rows not counted")),
        ({"rows": None}, LISTED.after.offset_json, ("3 files, 2.1 KiB", "exact in files; rows not counted")),
        ({}, '{"logOffset":0}', ("3 files, 2.1 KiB", "exact in files; rows not counted")),
    ],
)
def test_the_rows_that_wait_are_those_counted_from_the_same_start_else_said_to_be_uncounted(
    changed: dict[str, Any], line: str, says: tuple[str, str]
) -> None:
    stored = {**f.position(), "location": LISTED.location, "after": {"label": "", "offset_json": line}}
    stored["next"] = {"files": 3, "rows": 8, "exact": False, "bound": "at most", **changed}
    waits = source_card(LISTED, {}, counted=[codec.read(PositionChange, stored)]).amounts[-1]
    assert (waits.text, waits.why) == says


def test_a_time_shows_each_part_before_and_after_with_rows_and_what_is_not_as_asked(
    responder: Client,
) -> None:
    of = p.at_a_time()
    page = asked(responder, address(of))
    assert moved(page, "crm.customers.changes-0") == ("500", "700", ["forward"])
    assert moved(page, "crm.customers.changes-2") == ("500", "752", ["forward", "not-as-asked"])
    assert [e.attributes["data-value"] for e in page.all(data_code="lost")] == ["652", "0"]
    assert [e.attributes["data-value"] for e in page.all(data_code="reread")] == ["0", "0"]
    assert page.one("loses-rows")
    assert not page.all(data_code="repeats-rows")
    said = plain(text(responder, address(of)))
    assert '.option("startingOffsets", \'{"crm.customers.changes":{"0":700,"1":700,"2":752}}\')' in said
    assert (f"{of.label} --strategy continue" in said, "--position 0=time=" in said) == (True, True)
    assert '"reset_checkpoint_selection": [' in said
    assert (page.primary() or {})["value"] == "choose"


def test_retention_is_told_as_a_time_with_zone_and_how_long_that_is(responder: Client) -> None:
    said = plain(text(responder, address(p.at_committed())))
    assert KEPT_UNTIL.search(said)


def test_what_retention_took_is_said_in_words_at_the_part_and_at_the_source(responder: Client) -> None:
    look = p.looked({}, [p.kafka_source(gone=1)])
    page = asked(responder, address(p.at_positions(look=look)))
    assert page.value("readable") == "failed"
    assert "not-all-there" in moved(page, "crm.customers.changes-0")[2]
    assert "500 to 539" in page.one("doubts").text
    assert page.one("as-committed"), "not the one that promises that nothing is lost"


def test_looking_sends_what_was_typed_and_chooses_nothing(responder: Client) -> None:
    of = p.at_committed()
    answer = responder.post(
        address(of), {"act": "look", "form.0": "time", "value.0": "2026-11-22T03:00:00Z", "form.1": "keep"}
    )
    assert answer["Location"] == address(of)
    saved = choices(of)
    assert saved["positions_look"]["asked"] == {"0": {"at_ms": 1795316400000}}
    assert saved["positions_look"]["status"] == "working"
    assert "positions" not in saved


WISHES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "a version": ({"form.0": "version", "value.0": "12"}, {"0": {"version": 12}}),
    "a file": ({"form.1": "file", "value.1": "/in/a"}, {"1": {"file": "/in/a"}}),
    "the earliest": ({"form.0": "earliest"}, {"0": {"earliest": True}}),
    "one part by hand": (
        {"part.0.crm.customers.changes-1": "510", "part.0.crm.customers.changes-0": "500"},
        {"0": {"parts": {"crm.customers.changes-1": {"by_hand": "510"}}}},
    ),
    "several parts in lines": (
        {"parts.0": "crm.customers.changes-0 = 501\r\ncrm.customers.changes-2=latest\r\n"},
        {
            "0": {
                "parts": {
                    "crm.customers.changes-0": {"by_hand": "501"},
                    "crm.customers.changes-2": {"latest": True},
                }
            }
        },
    ),
    "one part at a time": (
        {"part.0.crm.customers.changes-1": "time=2026-11-22T03:00:00Z"},
        {"0": {"parts": {"crm.customers.changes-1": {"at_ms": 1795316400000}}}},
    ),
    "nothing": ({}, {}),
}


@pytest.mark.parametrize("name", WISHES)
def test_every_way_of_naming_a_position_becomes_a_wish(responder: Client, name: str) -> None:
    typed, asked = WISHES[name]
    of = p.at_committed()
    responder.post(address(of), {"act": "look", **typed})
    assert choices(of)["positions_look"]["asked"] == asked


def test_a_source_that_is_left_alone_keeps_what_was_looked_up(responder: Client) -> None:
    of = p.at_a_time()
    responder.post(address(of), {"act": "look", "form.1": "latest"})
    assert choices(of)["positions_look"]["asked"] == {"0": {"at_ms": p.NOON}, "1": {"latest": True}}
    responder.post(address(of), {"act": "look", "form.0": "committed"})
    assert choices(of)["positions_look"]["asked"] == {}


REFUSED = {
    "no zone": ({"form.0": "time", "value.0": "2026-11-22 03:00"}, "no_zone"),
    "nothing written": ({"form.0": "time"}, "no_value"),
    "no choice": ({"value.0": "12"}, "no_choice"),
    "two at once": ({"form.0": "latest", "parts.0": "a-0 = 1"}, "two_positions"),
    "no offset": ({"part.0.crm.customers.changes-1": "x"}, "no_position"),
    "a part at no zone": ({"parts.0": "a-0 = time=2026-11-22T03:00"}, "no_zone"),
    "no line": ({"parts.0": "orders-1"}, "no_part"),
    "not of this kind": ({"part.1.directory": "2"}, "no_parts"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_in_one_sentence_and_stays_typed(responder: Client, name: str) -> None:
    typed, code = REFUSED[name]
    of = p.at_committed()
    answer = responder.post(address(of), {"act": "look", **typed})
    assert answer.status_code == 422
    assert refusal(answer) == code
    page = answer.content.decode()
    for field, value in typed.items():
        assert field.startswith(("part.", "form.")) or html.escape(value) in page
    assert choices(of)["positions_look"]["status"] == "ready"


def test_all_sources_go_to_one_time_or_it_is_said_which_cannot(responder: Client) -> None:
    of = p.at_committed()
    responder.post(address(of), {"act": "all", "at": "2026-11-22T03:00:00Z"})
    assert set(choices(of)["positions_look"]["asked"]) == {"0", "1"}

    mixed = p.at_positions(
        f.failed_flow(f.pipeline(name="other")), p.looked({}, [p.kafka_source(), p.unknown_source()])
    )
    assert asked(responder, address(mixed)).one("not-all-take-time")
    answer = responder.post(address(mixed), {"act": "all", "at": "2026-11-22T03:00:00Z"})
    assert refusal(answer) == "cannot_start_there"


def test_choosing_what_loses_rows_needs_the_loss_accepted_by_its_rows(responder: Client) -> None:
    of = p.at_a_time()
    page = asked(responder, address(of))
    assert page.all("input", type="checkbox", name="accept", value="loss", required=True)
    assert "652 rows" in page.one("loses-rows").text
    assert not page.all(checked=True)

    refused = responder.post(address(of), {"act": "choose", "ticket": "t-1"})
    assert (refused.status_code, refusal(refused)) == (409, "loses_rows")
    assert "652 rows" in shown(refused).one("loses_rows").text
    assert "positions" not in choices(of)

    done = responder.post(address(of), {"act": "choose", "ticket": "t-1", "accept": "loss"})
    assert done["Location"] == f"/recoveries/{of.pk}/patch"
    assert choices(of)["positions"] == {"0": {"at_ms": p.NOON}}
    assert "continue, 1 start moved" in text(responder, address(of))


def test_a_look_that_somebody_replaced_is_not_chosen_unread(responder: Client) -> None:
    of = p.at_a_time()
    answer = responder.post(address(of), {"act": "choose", "ticket": "t-0", "accept": "loss"})
    assert (answer.status_code, refusal(answer)) == (409, "stale_look")
    assert "positions" not in choices(of)


def test_as_committed_takes_everything_back_at_once(responder: Client) -> None:
    of = p.at_earliest_chosen()
    assert asked(responder, address(of)).value("chosen") == "0=earliest;"
    answer = responder.post(address(of), {"act": "committed"})
    assert answer["Location"] == address(of)
    saved = choices(of)
    assert (saved["positions"], saved["positions_look"]["asked"]) == ({}, {})


def test_a_thousand_partitions_are_folded_found_by_name_and_never_a_thousand_fields(
    responder: Client,
) -> None:
    of = p.with_many()
    page = asked(responder, address(of))
    assert moved(page, "crm.customers.changes-7") == ("500", "600", ["forward"])
    assert page.value("parts-unchanged") == "999"
    assert len(page.all("tr")) < 60
    assert not [e for e in page.all("input", name=True) if e.attributes["name"].startswith("part.")]
    assert page.value("parts-hidden") == "949"

    found = text(responder, f"{address(of)}?part-name=changes-12")
    assert found.count('name="part.0.') == 11  # 12 and 120 to 129
    everything = text(responder, f"{address(of)}?show=all")
    assert everything.count('<th scope="row">') == 1000
    assert asked(responder, f"{address(of)}?part-name=zzz").value("no-such-part") == "zzz"


def test_a_source_that_cannot_be_asked_says_so_and_a_wish_for_it_cannot_be_chosen(responder: Client) -> None:
    wanted = {"2": StartChoice(by_hand='{"page":8}')}
    of = p.at_positions(look=p.looked(wanted, [p.unknown_source()]))
    page = asked(responder, address(of))
    assert page.one("position-problem")
    assert page.disabled("choose")


def test_a_sealed_plan_shows_its_positions_and_leads_to_taking_it_back(responder: Client) -> None:
    of = p.at_a_time()
    Recovery.objects.filter(pk=of.pk).update(state="planned")
    page = asked(responder, address(of))
    assert page.one("bar-sealed")
    assert (page.primary() or {})["href"] == f"/recoveries/{of.pk}/review"
    assert not page.all(name="form.0")
    refused = responder.post(address(of), {"act": "choose", "ticket": "t-1", "accept": "loss"})
    assert refusal(refused) == "wrong_state"


def test_a_viewer_sees_everything_and_changes_nothing(client: Client) -> None:
    client.force_login(f.person("viewer"))
    of = p.at_a_time()
    page = asked(client, address(of))
    assert not page.all(data_code="loses-rows")  # nothing to accept
    assert page.all(data_code="lost", data_value="652")
    assert not page.all(name="form.0")
    assert client.post(address(of), {"act": "committed"}).status_code == 403
    assert AuditEntry.objects.filter(outcome="denied").count() == 1


def test_the_strategy_page_leads_there_and_has_the_positions_looked_up_on_the_way(responder: Client) -> None:
    of = f.at_offset()
    page = text(responder, f"/recoveries/{of.pk}/offset")
    assert page.count('name="next" value="positions"') == 1  # of continue; the others take no position
    answer = responder.post(f"/recoveries/{of.pk}/offset", {"strategy": "continue", "next": "positions"})
    assert answer["Location"] == address(of)
    assert choices(of)["positions_look"]["status"] == "working"


def test_sources_that_differ_are_put_side_by_side_and_confirmed_one_by_one(responder: Client) -> None:
    of = p.other_sources()
    page = asked(responder, address(of))
    assert page.value("which-source") == "2"
    assert [page.row(f"source {n}").all("input", name="confirm") == [] for n in range(3)] == [
        True,
        False,
        False,
    ]
    assert p.MAPPING["pairs"][1]["confirm"] in page.row("source 1").text
    assert p.MAPPING["dropped"][0]["says"] in page.row("source 2").text
    assert page.one("start-not-chosen").links() == ["#src-1"]
    assert page.one("source-note").text == p.MAPPING["notes"][0]

    responder.post(address(of), {"act": "confirm", "confirm": ["1->2"]})
    assert choices(of)["confirmed"] == ["1->2"]
    page = asked(responder, address(of))
    assert page.value("which-source") == "1"
    assert page.all("input", value="1->2", checked=True)

    responder.post(address(of), {"act": "confirm"})
    assert choices(of)["confirmed"] == []


def test_what_is_no_proposal_cannot_be_confirmed(responder: Client) -> None:
    of = p.other_sources()
    answer = responder.post(address(of), {"act": "confirm", "confirm": ["0->1"]})
    assert (answer.status_code, refusal(answer)) == (409, "no_pair")
    assert "confirmed" not in choices(of)


def test_where_every_source_goes_on_as_itself_nothing_is_asked(responder: Client) -> None:
    assert "which-source" not in asked(responder, address(p.at_committed())).codes


def test_a_strategy_that_waits_for_what_is_said_of_its_sources_can_be_taken(responder: Client) -> None:
    of = p.other_sources()
    blocked = {
        "blocked": "Confirm first which sources are which: 1->2.",
        "blocker": {"code": "sources_unconfirmed"},
    }
    options = [{**o, **blocked} for o in of.facts["options"]]
    Recovery.objects.filter(pk=of.pk).update(facts={**of.facts, "options": options})
    page = text(responder, f"/recoveries/{of.pk}/offset")
    assert 'id="st-continue" value="continue" checked>' in page
    assert 'id="st-revert" value="revert" disabled>' in page
    answer = responder.post(f"/recoveries/{of.pk}/offset", {"strategy": "continue", "next": "positions"})
    assert answer["Location"] == address(of)


def test_what_was_confirmed_stays_confirmed_when_the_facts_no_longer_ask_for_it(responder: Client) -> None:
    of = p.other_sources()
    responder.post(address(of), {"act": "confirm", "confirm": ["1->2", "2->"]})
    mapping = {**p.MAPPING, "unconfirmed": []}
    options = [{**o, "mapping": mapping} for o in of.facts["options"]]
    Recovery.objects.filter(pk=of.pk).update(facts={**of.facts, "options": options})
    page = asked(responder, address(of))
    assert page.value("which-source") == "0"
    assert len(page.all(checked=True)) == 2


def test_a_part_set_beside_a_wish_keeps_the_wish_for_the_others_and_is_taken_back_by_a_word(
    responder: Client,
) -> None:
    of = p.at_a_time()
    part = "crm.customers.changes-1"
    responder.post(
        address(of), {"act": "look", f"part.0.{part}": "510", "part.0.crm.customers.changes-0": "700"}
    )
    assert choices(of)["positions_look"]["asked"] == {
        "0": {"at_ms": p.NOON, "parts": {part: {"by_hand": "510"}}}
    }

    of = p.with_a_part(f.failed_flow(f.pipeline(name="other")))
    page = asked(responder, address(of))
    assert moved(page, part) == ("500", "700", ["forward"])
    assert "time=" in page.row(part).cell("What that changes")
    assert "time=" not in page.row("crm.customers.changes-0").cell("What that changes")
    assert f"--position 0/{part}=time=" in plain(text(responder, address(of)))
    responder.post(address(of), {"act": "look", f"part.0.{part}": "committed"})
    assert choices(of)["positions_look"]["asked"] == {}


@pytest.mark.parametrize(
    ("query", "most"), [("", 20_000), ("?part-name=changes-12", 20_000), ("?show=all", 45_000)]
)
def test_a_thousand_partitions_cost_few_queries_and_a_page_of_bearable_size(
    responder: Client, django_assert_max_num_queries: Any, query: str, most: int
) -> None:
    of = p.with_many()
    responder.get(address(of))  # what is asked once for each session
    with django_assert_max_num_queries(16):
        page = responder.get(address(of) + query, headers={"accept-encoding": "gzip"})
    assert page["Content-Encoding"] == "gzip"
    assert len(page.content) < most  # bytes that are sent


GO_BACK = "Choose how far to go back first: every row of the windows after 09:06 has to be read again."


def test_going_back_is_chosen_on_the_strategy_page_and_leads_to_how_far(responder: Client) -> None:
    """It is blocked only until a start is chosen, and that is the next page's matter."""
    of = p.at_positions()
    rewind = {"strategy": "rewind", "blocked": GO_BACK, "blocker": {"code": "start_needed"}}
    options = [*of.facts["options"], {**of.facts["options"][0], **rewind}]
    Recovery.objects.filter(pk=of.pk).update(choices={}, facts={**of.facts, "options": options})
    page = asked(responder, f"/recoveries/{of.pk}/offset")
    assert page.all(id="st-rewind", value="rewind", disabled=False)
    assert page.one("needs-a-start")
    shown = responder.get(f"/recoveries/{of.pk}/offset").content.decode()
    assert ("Positions with reread" in shown, "Positions with rewind" in shown) == (True, False)

    answer = responder.post(f"/recoveries/{of.pk}/offset", {"strategy": "reread"})

    assert answer["Location"] == address(of)
    assert choices(of)["strategy"] == "rewind"
    assert choices(of)["positions_look"]["status"] == "working"


def test_going_back_goes_on_only_once_it_is_said_how_far(responder: Client) -> None:
    of = p.at_committed(strategy="rewind")
    page = asked(responder, address(of))
    assert page.one("how-far-not-chosen")
    assert page.one("bar-how-far-not-chosen")
    assert page.disabled("choose")
    assert page.primary() is None


@pytest.mark.parametrize(("sink", "is_shown"), [("files", False), ("delta", True), ("unknown", True)])
def test_the_call_that_empties_the_checkpoint_is_shown_only_where_no_row_is_lost(
    responder: Client, sink: str, is_shown: bool
) -> None:
    of = p.at_committed()
    Recovery.objects.update(facts={**of.facts, "sink": {"kind": sink, "declared": "", "place": "/table"}})
    page = asked(responder, address(of))
    assert ("no-call" in page.codes) != is_shown
    assert ("reset_checkpoint_selection" in text(responder, address(of))) == is_shown


def test_the_same_on_the_command_line_accepts_what_the_page_asks_to_accept(responder: Client) -> None:
    of = p.at_earliest_chosen()

    said = plain(text(responder, address(of)))
    assert f"{of.label} --strategy continue" in said
    assert "--position 0=earliest --accept-" in said
    Recovery.objects.filter(pk=of.pk).update(choices={**choices(of), "confirmed": ["0->1"]})
    assert " --confirm '0->1'" in plain(text(responder, address(of)))
    back = p.at_committed(f.flow(name="main.db.back", state="failed"), strategy="rewind")
    assert f"{back.label} --strategy reread" in plain(text(responder, address(back)))
    free = plain(text(responder, address(p.at_committed(f.flow(name="main.db.other", state="failed")))))
    assert "--accept-" not in free
