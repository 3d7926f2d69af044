"""What the person at the terminal reads when an instance is ready."""

from pathlib import Path

from console.supervisor.terminal import sign_ins

PEOPLE = {"responder": {"role": "responder", "password": "s3cret"}}
KEPT = Path("var/people.json")


def test_the_first_start_shows_the_passwords_and_what_to_do_with_them() -> None:
    said = "\n".join(sign_ins("http://127.0.0.1:8000", PEOPLE, first=True, kept=KEPT))

    assert "http://127.0.0.1:8000" in said
    assert "s3cret" in said
    assert "Sign in as responder. The failed flow is at the top." in said
    assert str(KEPT) in said


def test_a_later_start_says_where_the_passwords_are_and_shows_none() -> None:
    said = "\n".join(sign_ins("http://127.0.0.1:8000", PEOPLE, first=False, kept=KEPT))

    assert "s3cret" not in said
    assert str(KEPT) in said
