"""Words, shapes and signatures: pure functions, no database and no network."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recovery.errors import WrongUse
from recovery.notify import references, shapes, signing, wording
from recovery.notify.events import EVENTS
from tests.unit.notify.conftest import SECRET

FACTS: dict[str, wording.Fact] = {
    "forecast": "0 rows lost, 0 doubled, 13 read again", "flow": "orders_flow", "recovery": "R-7",
    "environment": "production", "expires_at": "2026-11-21 20:00 UTC", "by": "ada",
}  # fmt: skip


def test_a_signature_is_the_one_of_the_open_standard() -> None:
    body = b'{"test": 2432232314}'

    made = signing.signed_headers(SECRET, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)

    assert made == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize(("uid", "at", "body"), [("b", 1, b"x"), ("a", 2, b"x"), ("a", 1, b"y")])
def test_a_signature_covers_id_time_and_body(uid: str, at: int, body: bytes) -> None:
    key = signing.key_of(SECRET)

    assert signing.sign_body(key, "a", 1, b"x") != signing.sign_body(key, uid, at, body)


@pytest.mark.parametrize("secret", ["5hort!", "whsec_not base64!", "whsec_AAAA", ""])
def test_a_weak_or_broken_signing_secret_is_refused_without_naming_it(secret: str) -> None:
    with pytest.raises(WrongUse) as refused:
        signing.key_of(secret)

    assert secret == "" or secret not in refused.value.sentence


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("two\r\nBcc: all@example.com", "two Bcc: all@example.com"),
        ("postgresql://u:hunter2@db/x fails", "postgresql://…@db/x fails"),
        ("token rp_abcdefghijkl is wrong", "token … is wrong"),
        ("Authorization: Bearer abcdefghijkl", "Authorization: …"),
        ("x" * 600, "x" * 499 + "…"),
        ("lone \ud800 surrogate", "lone ? surrogate"),
        (13, 13),
        (None, None),
    ],
)
def test_a_fact_leaves_the_house_as_one_short_line_without_secrets(given: Any, kept: Any) -> None:
    assert wording.plain_fact(given) == kept


def test_a_fact_that_is_no_plain_value_is_a_bug_of_the_caller() -> None:
    with pytest.raises(TypeError):
        wording.plain_fact(["list"])  # type: ignore[arg-type]


@pytest.mark.parametrize("event", EVENTS)
def test_every_event_has_a_title_even_when_a_fact_is_missing(event: str) -> None:
    assert 5 < len(wording.message_title(event, {})) <= 150
    assert len(wording.message_title(event, dict.fromkeys(("flow", "recovery", "channel"), "x" * 400))) <= 150


def test_facts_are_read_in_one_order_whoever_gives_them() -> None:
    assert [label for label, _ in wording.fact_lines({**FACTS, "rows_left": 3})] == [
        "Recovery", "Flow", "Environment", "Forecast", "By", "Expires", "Rows left",
    ]  # fmt: skip


def body(**facts: wording.Fact) -> dict[str, Any]:
    return {
        "title": "Approval asked: R-7",
        "facts": {**FACTS, **facts},
        "link": "/recoveries/R-7",
        "by": "ada",
    }


def test_a_webhook_says_what_where_and_which_forecast_with_a_deep_link() -> None:
    made = json.loads(
        shapes.webhook_body(
            uid="u", event="approval.requested", at=datetime(2026, 11, 21, tzinfo=UTC), recovery="R-7",
            environment="production", body=body(), url="https://reprise.example/recoveries/R-7",
        )
    )  # fmt: skip

    assert (made["id"], made["event"], made["at"]) == ("u", "approval.requested", "2026-11-21T00:00:00+00:00")
    assert (made["recovery"], made["environment"]) == ("R-7", "production")
    assert made["facts"] == FACTS
    assert f"Forecast: {FACTS['forecast']}" in made["text"]
    assert made["url"] in made["text"]


def test_a_chat_message_says_it_all_in_its_text_and_again_in_blocks() -> None:
    made = json.loads(shapes.chat_body(body=body(), url="https://reprise.example/recoveries/R-7"))

    for fact in FACTS.values():
        assert str(fact) in made["text"]
    assert "<https://reprise.example/recoveries/R-7|Open it in Reprise>" in made["text"]
    assert [b["type"] for b in made["blocks"]] == ["header", "section", "section"]
    assert {"type": "mrkdwn", "text": "*Expires*\n2026-11-21 20:00 UTC"} in made["blocks"][1]["fields"]


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=700), max_size=45), st.text(max_size=300))
def test_no_fact_breaks_slacks_shape_or_speaks_as_markup(facts: dict[str, str], name: str) -> None:
    told = {k: wording.plain_fact(v) for k, v in facts.items()}
    head = wording.message_title(
        "flow.failed", {"flow": wording.plain_fact(name), "environment": "production"}
    )

    made = json.loads(shapes.chat_body(body={"title": head, "facts": told}, url="https://r.example/"))

    assert len(made["blocks"][0]["text"]["text"]) <= 150
    for block in made["blocks"][1:-1]:
        assert 1 <= len(block["fields"]) <= 10
        assert all("<" not in f["text"] and len(f["text"]) <= 2000 for f in block["fields"])
    assert made["text"].count("<") == 1


@pytest.mark.parametrize(
    "ref",
    ["env:REPRISE_SECRET_KEY", "env:PATH", "env:REPRISE_NOTIFY_", "file:/run/secrets/secret_key", "file:notify",
     "file:/run/secrets/../notify", "file:/etc/passwd", "https://example.com", "", "env:REPRISE_NOTIFY_A\n"],
)  # fmt: skip
def test_a_reference_reaches_nothing_that_is_not_meant_for_notifications(ref: str) -> None:
    with pytest.raises(WrongUse):
        references.check_reference(ref)


@pytest.mark.parametrize(
    "ref", ["env:REPRISE_NOTIFY_HOOK", "file:/run/secrets/notify_hook", "file:/notify.url"]
)
def test_a_reference_named_for_notifications_is_taken(ref: str) -> None:
    assert references.check_reference(ref) == ref


def test_a_reference_that_leads_nowhere_is_named_and_its_value_never(tmp_path: Any) -> None:
    (tmp_path / "notify").write_bytes(b"\xff\xfe")
    for ref in ("env:REPRISE_NOTIFY_ABSENT", f"file:{tmp_path}/notify", f"file:{tmp_path}/notify_absent"):
        with pytest.raises(WrongUse, match=r"notify|NOTIFY"):
            references.read_reference(ref)
