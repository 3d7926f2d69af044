"""Start offsets through their page: looked up first, chosen with their costs named, nothing by itself."""

import html
import re
from typing import Any

import pytest
from django.test import Client

from recovery.models import AuditEntry, Recovery
from recovery.sources.base import Wanted
from recovery.workflow import broker
from tests import factories as f
from tests.factories import positions as p
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


def row(page: str, part: str) -> str:
    found = next(r for r in re.findall(r"<tr>.*?</tr>", page, re.DOTALL) if plain(r).startswith(f"{part}"))
    return plain(found)


def choices(of: Recovery) -> dict[str, Any]:
    of.refresh_from_db()
    return dict(of.choices)


def test_before_the_first_look_the_page_says_what_holds_and_offers_the_look(responder: Client) -> None:
    page = text(responder, address(p.at_positions()))
    assert "Nothing is looked up yet" in page
    assert "every source goes on exactly where its last committed batch ended" in plain(page)
    assert 'value="look" id="primary"' in page


@pytest.mark.parametrize("strategy", ["revert", "full-refresh", "repair"])
def test_a_strategy_without_positions_has_nothing_to_choose(responder: Client, strategy: str) -> None:
    page = text(responder, address(p.at_positions(look=p.looked({}, []), strategy=strategy)))
    assert "There is nothing to choose here" in page
    assert 'id="look"' not in page


def test_a_look_that_runs_is_said_and_asked_about(responder: Client) -> None:
    page = text(responder, address(p.look_working()))
    assert "The sources are being asked." in page
    assert 'hx-trigger="every 1s"' in page


def test_a_look_that_failed_says_why_and_what_is_shown_instead(responder: Client) -> None:
    page = plain(text(responder, address(p.look_failed())))
    assert "Not looked up: Kafka at broker:9092 does not answer." in page
    assert "What stands below is of the look before." in page


def test_where_every_source_stays_nothing_is_selected_and_nothing_costs(responder: Client) -> None:
    page = text(responder, address(p.at_committed()))
    assert row(page, "crm.customers.changes-0") == "crm.customers.changes-0 500 the same unchanged"
    assert "every source goes on where its last committed batch ended" in plain(page)
    assert 'id="choose"' not in page
    assert "selected" not in page
    assert 'id="primary">Go to Patch code' in page


def test_a_time_shows_each_part_before_and_after_with_rows_and_what_is_not_as_asked(
    responder: Client,
) -> None:
    of = p.at_a_time()
    page = text(responder, address(of))
    assert "crm.customers.changes-0 500 700 Ahead What lies between is never read." in row(
        page, "crm.customers.changes-0"
    )
    late = row(page, "crm.customers.changes-2")
    assert "500 752" in late
    assert "Not as asked: No record is of" in late
    said = plain(page)
    assert "Never read 652 rows exact" in said
    assert "Read again 0 rows exact" in said
    assert "Source 0: 652 rows never read" in said
    assert '.option("startingOffsets", \'{"crm.customers.changes":{"0":700,"1":700,"2":752}}\')' in said
    assert f"bin/manage plan {of.label} --strategy continue --position 0=time=" in said
    assert '"reset_checkpoint_selection": [' in said
    assert "Choose these positions, go to Patch code" in said


def test_retention_is_told_as_a_time_with_zone_and_how_long_that_is(responder: Client) -> None:
    said = plain(text(responder, address(p.at_committed())))
    assert re.search(r"Readable until .*\d\d:\d\d:\d\d UTC, in (2 h 5\d min\.|3 h)", said)


def test_what_retention_took_is_said_in_words_at_the_part_and_at_the_source(responder: Client) -> None:
    look = p.looked({}, [p.kafka_source(gone=1)])
    page = text(responder, address(p.at_positions(look=look)))
    assert "Not readable" in page
    assert "What follows is not all there any more." in row(page, "crm.customers.changes-0")
    said = plain(page)
    assert "Whether every row is read once from there is not certain Source 0: Partition 0" in said
    assert "Nothing is lost by that" not in said
    assert "offsets 500 to 539 are gone" in plain(page)


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
    "no zone": (
        {"form.0": "time", "value.0": "2026-11-22 03:00"},
        "names no zone. Write it as 2026-11-22 03:00Z",
    ),
    "nothing written": ({"form.0": "time"}, "Source 0: write the time beside the choice."),
    "no choice": ({"value.0": "12"}, "choose what '12' is"),
    "two at once": ({"form.0": "latest", "parts.0": "a-0 = 1"}, "Both were given."),
    "no offset": ({"part.0.crm.customers.changes-1": "x"}, "'x' is no position for crm.customers.changes-1"),
    "a part at no zone": ({"parts.0": "a-0 = time=2026-11-22T03:00"}, "names no zone"),
    "no line": ({"parts.0": "orders-1"}, "'orders-1' sets no part."),
    "not of this kind": ({"part.1.directory": "2"}, "kind files has no parts"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused_in_one_sentence_and_stays_typed(responder: Client, name: str) -> None:
    typed, says = REFUSED[name]
    of = p.at_committed()
    answer = responder.post(address(of), {"act": "look", **typed})
    assert answer.status_code == 422
    page = answer.content.decode()
    assert says in html.unescape(page)
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
    assert "Not every source here can start at a time." in text(responder, address(mixed))
    answer = responder.post(address(mixed), {"act": "all", "at": "2026-11-22T03:00:00Z"})
    assert "Source 2 cannot start at time. Set the others one by one." in answer.content.decode()


def test_choosing_what_loses_rows_needs_the_loss_accepted_by_its_rows(responder: Client) -> None:
    of = p.at_a_time()
    page = text(responder, address(of))
    assert '<input type="checkbox" name="accept" value="loss" required>' in page
    assert "I accept this loss: Source 0: 652 rows never read" in page
    assert "checked" not in page

    refused = responder.post(address(of), {"act": "choose", "ticket": "t-1"})
    assert refused.status_code == 409
    assert "leave rows out, and that was not accepted: Source 0: 652 rows" in plain(refused.content.decode())
    assert "positions" not in choices(of)

    done = responder.post(address(of), {"act": "choose", "ticket": "t-1", "accept": "loss"})
    assert done["Location"] == f"/recoveries/{of.pk}/patch"
    assert choices(of)["positions"] == {"0": {"at_ms": p.NOON}}
    assert "continue, 1 start moved" in text(responder, address(of))


def test_a_look_that_somebody_replaced_is_not_chosen_unread(responder: Client) -> None:
    of = p.at_a_time()
    answer = responder.post(address(of), {"act": "choose", "ticket": "t-0", "accept": "loss"})
    assert answer.status_code == 409
    assert "Somebody has looked up other positions" in answer.content.decode()
    assert "positions" not in choices(of)


def test_as_committed_takes_everything_back_at_once(responder: Client) -> None:
    of = p.at_earliest_chosen()
    assert "Chosen: source 0 at earliest" in plain(text(responder, address(of)))
    answer = responder.post(address(of), {"act": "committed"})
    assert answer["Location"] == address(of)
    saved = choices(of)
    assert (saved["positions"], saved["positions_look"]["asked"]) == ({}, {})


def test_a_thousand_partitions_are_folded_found_by_name_and_never_a_thousand_fields(
    responder: Client,
) -> None:
    of = p.with_many()
    page = text(responder, address(of))
    assert row(page, "crm.customers.changes-7") == (
        "crm.customers.changes-7 500 600 Ahead What lies between is never read."
    )
    assert "999 parts unchanged" in plain(page)
    assert page.count("<tr>") < 60
    assert 'name="part.' not in page
    assert "949 more parts are not listed" in page

    found = text(responder, f"{address(of)}?part-name=changes-12")
    assert found.count('name="part.0.') == 11  # 12 and 120 to 129
    everything = text(responder, f"{address(of)}?show=all")
    assert everything.count('<th scope="row">') == 1000
    assert "No part's name contains zzz" in html.unescape(text(responder, f"{address(of)}?part-name=zzz"))


def test_a_source_that_cannot_be_asked_says_so_and_a_wish_for_it_cannot_be_chosen(responder: Client) -> None:
    wanted = {"2": Wanted(by_hand='{"page":8}')}
    of = p.at_positions(look=p.looked(wanted, [p.unknown_source()]))
    page = text(responder, address(of))
    assert "Nobody could ask this source." in page
    assert "stays where it was committed" in page
    assert '<button class="btn btn-primary" type="button" disabled' in page


def test_a_sealed_plan_shows_its_positions_and_leads_to_taking_it_back(responder: Client) -> None:
    of = p.at_a_time()
    Recovery.objects.filter(pk=of.pk).update(state="planned")
    page = text(responder, address(of))
    assert "To choose others, take the plan back in step 5." in page
    assert 'name="form.0"' not in page
    refused = responder.post(address(of), {"act": "choose", "ticket": "t-1", "accept": "loss"})
    assert "only while it is diagnosing" in refused.content.decode()


def test_a_viewer_sees_everything_and_changes_nothing(client: Client) -> None:
    client.force_login(f.person("viewer"))
    of = p.at_a_time()
    page = text(client, address(of))
    assert "652 rows never read" not in page  # nothing to accept
    assert "Never read" in page
    assert 'name="form.0"' not in page
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
    page = text(responder, address(of))
    assert "2 to confirm: no plan is sealed before." in plain(page)
    assert "not needed" in row(page, "source 0")
    assert "Does /nowhere/in/changes continue what was read of /nowhere/in?" in row(page, "source 1")
    assert "40 rows that wait there are never read" in row(page, "source 2")
    assert 'href="#src-1">choose its start' in page
    assert "another order than before" in page

    responder.post(address(of), {"act": "confirm", "confirm": ["1->2"]})
    assert choices(of)["confirmed"] == ["1->2"]
    page = text(responder, address(of))
    assert "1 to confirm" in page
    assert 'value="1-&gt;2" checked' in page

    responder.post(address(of), {"act": "confirm"})
    assert choices(of)["confirmed"] == []


def test_what_is_no_proposal_cannot_be_confirmed(responder: Client) -> None:
    of = p.other_sources()
    answer = responder.post(address(of), {"act": "confirm", "confirm": ["0->1"]})
    assert answer.status_code == 409
    assert "There is nothing to confirm as 0->1. Confirm: 1->2, 2->." in html.unescape(
        answer.content.decode()
    )
    assert "confirmed" not in choices(of)


def test_where_every_source_goes_on_as_itself_nothing_is_asked(responder: Client) -> None:
    assert "Which source is which" not in text(responder, address(p.at_committed()))


def test_a_strategy_that_waits_for_what_is_said_of_its_sources_can_be_taken(responder: Client) -> None:
    of = p.other_sources()
    options = [{**o, "blocked": "Confirm first which sources are which: 1->2."} for o in of.facts["options"]]
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
    page = text(responder, address(of))
    assert "Everything that had to be confirmed is." in page
    assert page.count(" checked") == 2


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
    page = text(responder, address(of))
    assert "500 700 Ahead What lies between is never read. Asked: time=" in row(page, part)
    assert "Asked" not in row(page, "crm.customers.changes-0")
    assert f"--position 0/{part}=time=" in plain(page)
    responder.post(address(of), {"act": "look", f"part.0.{part}": "committed"})
    assert choices(of)["positions_look"]["asked"] == {}


@pytest.mark.parametrize(
    ("query", "most"), [("", 125_000), ("?part-name=changes-12", 125_000), ("?show=all", 450_000)]
)
def test_a_thousand_partitions_cost_few_queries_and_a_page_of_bearable_size(
    responder: Client, django_assert_max_num_queries: Any, query: str, most: int
) -> None:
    of = p.with_many()
    responder.get(address(of))  # what is asked once for each session
    with django_assert_max_num_queries(16):
        page = responder.get(address(of) + query).content
    assert len(page) < most


GO_BACK = "Choose how far to go back first: every row of the windows after 09:06 has to be read again."


def test_going_back_is_chosen_on_the_strategy_page_and_leads_to_how_far(responder: Client) -> None:
    """It is blocked only until a start is chosen, and that is the next page's matter."""
    of = p.at_positions(strategy="")
    options = [*of.facts["options"], {**of.facts["options"][0], "strategy": "rewind", "blocked": GO_BACK}]
    Recovery.objects.filter(pk=of.pk).update(facts={**of.facts, "options": options})
    page = text(responder, f"/recoveries/{of.pk}/offset")
    assert 'id="st-rewind" value="rewind"' in page
    assert 'id="st-rewind" value="rewind" disabled' not in page
    assert "Needs a start Choose how far to go back first" in plain(page)

    answer = responder.post(f"/recoveries/{of.pk}/offset", {"strategy": "rewind"})

    assert answer["Location"] == address(of)
    assert choices(of)["strategy"] == "rewind"
    assert choices(of)["positions_look"]["status"] == "working"


def test_going_back_goes_on_only_once_it_is_said_how_far(responder: Client) -> None:
    page = text(responder, address(p.at_committed(strategy="rewind")))
    assert "Not chosen yet: how far to go back." in plain(page)
    assert "Say at a source how far to go back" in plain(page)
    assert ">Go to Patch code" not in page


def test_the_same_on_the_command_line_accepts_what_the_page_asks_to_accept(responder: Client) -> None:
    of = p.at_earliest_chosen()

    assert f"bin/manage plan {of.label} --strategy continue --position 0=earliest --accept-" in plain(
        text(responder, address(of))
    )
    Recovery.objects.filter(pk=of.pk).update(choices={**choices(of), "confirmed": ["0->1"]})
    assert " --confirm '0->1'" in plain(text(responder, address(of)))
    free = plain(text(responder, address(p.at_committed(f.flow(name="main.db.other", state="failed")))))
    assert "--accept-" not in free
