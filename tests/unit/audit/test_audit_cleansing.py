"""Nothing that looks like a secret is written down, and nothing else is lost."""

import time

import pytest

from console.logs import strike_secrets
from recovery.audit import cleansing
from recovery.audit.actions import append_entry
from recovery.models import AuditEntry
from recovery.notify.wording import plain_fact
from recovery.people.roles import SYSTEM

SECRETS = [
    "rp_" + "a1B2" * 10,
    "dapi" + "0123456789abcdef" * 2,
    "AKIA" + "ABCDEFGH12345678",
    "ghp_" + "x" * 36,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
    "Bearer abcdefghijklmnop",
    "Authorization: Basic dXNlcjpwYXNzd29yZA==",
    "postgresql://reprise:hunter22@db/reprise",
    "password=hunter22",
    '"client_secret": "hunter22"',
    "REPRISE_TOKEN=hunter22",
    "fs.azure.account.key=x; account_key: hunter22",
    "https://x.blob.core.windows.net/a?sv=1&sig=abc%2Fdef",
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2Vw\n-----END PRIVATE KEY-----",
]
MARKS = (
    "a1B2",
    "0123456789abcdef",
    "ABCDEFGH",
    "xxxx",
    "c2ln",
    "abcdefghij",
    "dXNl",
    "hunter22",
    "abc%2F",
    "MC4C",
)


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_within_a_sentence_is_withheld_and_the_sentence_stays(secret: str) -> None:
    found = cleansing.cleanse_text(f"The server said: {secret} and closed.")
    assert cleansing.WITHHELD in found
    assert not any(mark in found for mark in MARKS)
    assert found.startswith("The server said: ")
    assert found.endswith(" and closed.")


@pytest.mark.parametrize(
    "text",
    [
        "Made access token laptop for ada.",
        "The token laptop expired on 2026-11-21 10:00 UTC. Make a new one in the console and set REPRISE_TOKEN.",
        "design=somethinglong",
        "file:/run/secrets/token",
        "token_ref=file:/run/secrets/api",
        "dropDuplicates([\"customer_id\"])",
        "Key columns: customer_id, sequence_num",
        "s3://bucket/checkpoints/0",
    ],
)  # fmt: skip
def test_other_text_stays_as_it_is(text: str) -> None:
    assert cleansing.cleanse_text(text) == text


def test_values_are_judged_by_their_name_too_at_any_depth() -> None:
    given = {
        "password": "x", "api_key": "y", "nested": [{"Client-Secret": "z", "kept": "w"}], "token": 17, "secret": "",
        "key": ["customer_id"], "token_ref": "env:TOKEN", "credential": "file:/run/secrets/c", "sets": {"a"},
    }  # fmt: skip
    hidden = cleansing.WITHHELD
    assert cleansing.cleanse_value(given) == {
        "password": hidden, "api_key": hidden, "nested": [{"Client-Secret": hidden, "kept": "w"}], "token": 17,
        "secret": "", "key": ["customer_id"], "token_ref": "env:TOKEN", "credential": "file:/run/secrets/c",
        "sets": {"a"},
    }  # fmt: skip


LONG = [
    "a", "aA1", "-", "a/", "word ", "token=", '"password', "password ", "password_", "://b:", "w://", "eyJa.", "-eyJ",
    "-eyJaaaaaaaa", "-eyJaaaaaaaa.", "eyJaaaaaaaa.aaaaaaaa-", "-----BEGIN ", "-----BEGIN A PRIVATE KEY-----", "Bearer ",
    "Bearer a", "-rp_", ";sig=", "apikey-",
]  # fmt: skip


@pytest.mark.parametrize("repeated", LONG)
def test_the_time_for_a_text_grows_with_its_length_and_no_faster(repeated: str) -> None:
    of = (repeated * 30_000)[:30_000]
    started = time.process_time()
    for read in (cleansing.cleanse_text, plain_fact, strike_secrets):
        read(of)
    assert time.process_time() - started < 0.5


def test_a_long_text_is_read_only_as_far_as_it_is_kept_and_no_secret_is_cut_in_two() -> None:
    for length in range(1, 60):
        told = "x" * length + " token: rp_" + "a1B2" * 10 + " end" + " more" * 100
        assert "a1B2" not in cleansing.cleanse_and_shorten(told, 20)
    assert cleansing.cleanse_and_shorten("a b c", 20) == "a b c"
    assert cleansing.cleanse_and_shorten("word " * 100, 20).split() == ["word"] * 7 + ["…"]
    assert cleansing.cleanse_and_shorten("a" * 1_000_000, 20) == "…"


@pytest.mark.django_db
def test_no_part_of_an_entry_holds_a_secret() -> None:
    secret = SECRETS[0]
    append_entry(
        action="setting.change", outcome="done", by=SYSTEM, target=secret, says=f"Set {secret}.", reason=secret,
        before={"password": "old-password"}, after={"url": f"https://u:{secret}@host", "list": [secret]},
    )  # fmt: skip
    stored = str(AuditEntry.objects.values().get())
    assert secret not in stored
    assert "old-password" not in stored
