"""A log line: JSON for machines, words for people, the request's id in both, and no secret in either."""

import io
import json
import logging
import logging.config
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from console import logs
from recovery import trace

Log = Callable[[str], tuple[logging.Logger, Callable[[], str]]]


@pytest.fixture
def log() -> Iterator[Log]:
    """A logger of its own with a format's formatter, and what it wrote."""
    made = logging.getLogger("reprise.test")
    made.propagate = False

    def build(form: str) -> tuple[logging.Logger, Callable[[], str]]:
        described = logs.logging_config(form)["formatters"]["line"]
        formatter = described["()"](**{k: v for k, v in described.items() if k != "()"})
        stream = io.StringIO()
        handler = logging.StreamHandler(stream)
        handler.setFormatter(formatter)
        made.handlers = [handler]
        made.setLevel("INFO")
        return made, stream.getvalue

    yield build
    made.handlers = []
    made.propagate = True


def test_a_line_is_one_json_object_with_the_id_of_its_request(log: Log) -> None:
    logger, wrote = log("json")
    with trace.bound("req-12345678"):
        logger.info("Step %s began", 7, extra={"recovery": "R-1"})
    line = json.loads(wrote())

    assert (line["event"], line["level"], line["logger"]) == ("Step 7 began", "info", "reprise.test")
    assert (line["request_id"], line["recovery"]) == ("req-12345678", "R-1")
    assert line["timestamp"].endswith("Z")
    assert wrote().count("\n") == 1


def test_a_traceback_stays_in_its_line(log: Log) -> None:
    logger, wrote = log("json")
    try:
        raise ValueError("token=abcdefgh1234")
    except ValueError:
        logger.exception("It broke")

    assert wrote().count("\n") == 1
    assert "ValueError" in json.loads(wrote())["exception"]
    assert "abcdefgh1234" not in wrote()


@pytest.mark.parametrize("form", ["json", "text"])
def test_a_traceback_shows_code_and_no_variable(log: Log, form: str) -> None:
    logger, wrote = log(form)
    kept_to_itself = "".join(["swor", "dfish"])
    try:
        raise ValueError(len(kept_to_itself))
    except ValueError:
        logger.exception("It broke")

    assert "raise ValueError(len(kept_to_itself))" in wrote()
    assert "swordfish" not in wrote()


def test_people_read_words(log: Log) -> None:
    logger, wrote = log("text")
    logger.warning("Workspace %s away", "here")

    assert "Workspace here away" in wrote()
    assert "\x1b" not in wrote()
    assert not wrote().startswith("{")


def test_a_line_outside_of_a_request_has_no_id(log: Log) -> None:
    logger, wrote = log("json")
    logger.info("started")

    assert "request_id" not in json.loads(wrote())


SECRETS = [
    "Authorization: Bearer dapi0123456789abcdef0123456789abcdef",
    "Authorization: Basic dXNlcjpwYXNzd29yZA==",
    "rp_Zk3lq0SdfjKwe83hfkQwe83hfkZk3lq0S",
    "postgresql://reprise:hunter2hunter2@postgres/reprise",
    "redis://:hunter2hunter2@broker:6379/0",
    "sc://localhost:15002/;user_id=reprise;token=hunter2hunter2",
    "GET /x?access_token=hunter2hunter2&page=2",
    "password=hunter2hunter2",
    "AKIAABCDEFGHIJKLMNOP",
]


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_struck_out_wherever_it_stands(log: Log, form: str, secret: str) -> None:
    logger, wrote = log(form)
    logger.info("said %s", secret)
    logger.info("more", extra={"deep": {"in": [secret]}})
    whole = wrote()

    for word in ("hunter2", "dapi0123456789", "Zk3lq0Sdf", "dXNlcjpwYX", "ABCDEFGHIJKLMNOP"):
        assert word not in whole
    assert "…" in whole


def test_a_value_whose_name_is_secret_is_struck_out(log: Log) -> None:
    logger, wrote = log("json")
    logger.info("made", extra={"user_token": "short", "api_secret": 5, "key": "kept"})
    line = json.loads(wrote())

    assert (line["user_token"], line["api_secret"], line["key"]) == ("…", "…", "kept")


@pytest.mark.parametrize("text", ["Renamed version 1 to 2", "/flows/12?token_kind=x", "12 rows; 3 files"])
def test_what_is_no_secret_stays(text: str) -> None:
    assert logs.strike_secrets(text) == text


@pytest.mark.parametrize("form", ["json", "text"])
def test_the_configuration_is_one_that_logging_takes(form: str) -> None:
    root = logging.getLogger()
    before: dict[str, Any] = {"handlers": root.handlers[:], "level": root.level}
    try:
        logging.config.dictConfig(logs.logging_config(form))
        assert len(root.handlers) == 1
        assert logging.getLogger("gunicorn.error").propagate
    finally:
        root.handlers, root.level = before["handlers"], before["level"]
