"""The client over real HTTP: paging, retries that are safe, errors that people understand, lost answers."""

import base64
import socket
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from recovery import bounded
from recovery.errors import NotFound, OutcomeUnknown, Refused, RepriseError, Unreachable
from recovery.outbound import AllowedAddresses
from recovery.pipelines import transport
from recovery.pipelines.client import ActiveUpdate, ApiDenied, ApiError, PipelinesClient
from recovery.pipelines.transport import Transport, kept_text
from tests.unit.pipelines.stub import Answer, Asked, Stub, serving

TOKEN = "rp_very-secret"
PIPELINE = "/api/2.0/pipelines/p1"


@contextmanager
def client_of(
    answer: Callable[[Asked], Answer], timeout: float = 5
) -> Iterator[tuple[PipelinesClient, Stub]]:
    with (
        serving(answer) as stub,
        closing(PipelinesClient(url=stub.url, token=TOKEN, timeout=timeout)) as client,
    ):
        yield client, stub


def in_turn(*answers: Answer) -> Callable[[Asked], Answer]:
    """Each answer once, the last one for ever."""
    left = list(answers)
    return lambda asked: left.pop(0) if len(left) > 1 else left[0]


def problem(status: int, code: str, message: str, **more: Any) -> Answer:
    return Answer(status, {"error_code": code, "message": message, **more})


def test_the_second_page_sends_the_token_and_the_size_alone() -> None:
    pages = in_turn(
        Answer(body={"events": [{"id": 1}, {"id": 2}], "next_page_token": "t1"}),
        Answer(body={"events": [], "next_page_token": "t2"}),
        Answer(body={"next_page_token": "t3"}),
        Answer(body={"events": [{"id": 3}]}),
    )
    with client_of(pages) as (client, stub):
        events = client.events("p1", filter="level='ERROR'", order_by="timestamp asc", limit=None)
        assert [e["id"] for e in events] == [1, 2, 3]
    assert [a.query for a in stub.asked] == [
        {"filter": "level='ERROR'", "order_by": "timestamp asc", "max_results": "250"},
        {"page_token": "t1", "max_results": "250"},
        {"page_token": "t2", "max_results": "250"},
        {"page_token": "t3", "max_results": "250"},
    ]
    assert {a.headers["Authorization"] for a in stub.asked} == {f"Bearer {TOKEN}"}


def test_a_limit_ends_the_paging_early() -> None:
    page = Answer(body={"updates": [{"update_id": str(n)} for n in range(10)], "next_page_token": "more"})
    with client_of(lambda _: page) as (client, stub):
        assert len(client.list_updates("p1", limit=15)) == 15
        assert len(client.list_updates("p1", limit=10)) == 10
    assert len(stub.asked) == 3


def test_a_list_without_end_is_an_error_rather_than_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recovery.pipelines.client.PAGES", 5)
    with (
        client_of(lambda _: Answer(body={"next_page_token": "again"})) as (client, _),
        pytest.raises(ApiError, match="without end"),
    ):
        client.list_pipelines()


@pytest.mark.parametrize("first", [Answer(drop=True), Answer(503, headers={"Retry-After": "0"}), Answer(429)])
def test_reading_is_tried_again(first: Answer) -> None:
    with client_of(in_turn(first, Answer(body={"pipeline_id": "p1"}))) as (client, stub):
        assert client.get_pipeline("p1") == {"pipeline_id": "p1"}
    assert len(stub.asked) == 2


@pytest.mark.parametrize("answer", [Answer(drop=True), Answer(503, headers={"Retry-After": "0"})])
def test_reading_ends_as_unreachable_after_three_tries(answer: Answer) -> None:
    with client_of(lambda _: answer) as (client, stub), pytest.raises(Unreachable):
        client.get_pipeline("p1")
    assert len(stub.asked) == 3


def test_nobody_listening_is_unreachable_for_reading_and_acting() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with closing(PipelinesClient(url=url, token=TOKEN, timeout=2)) as client:
        for call in (client.list_pipelines, lambda: client.start_update("p1")):
            with pytest.raises(Unreachable, match="cannot be reached"):
                call()


@pytest.mark.parametrize(
    "answer",
    [
        Answer(drop=True),
        Answer(500, {"message": "boom"}),
        Answer(502, b"<html>bad gateway</html>"),
        Answer(504),
        Answer(body=b"not json"),
        Answer(body={"updates": []}),
        Answer(body={"update_id": None}),
    ],
)
def test_a_start_whose_answer_was_lost_is_unknown_and_never_sent_again(answer: Answer) -> None:
    with (
        client_of(lambda _: answer) as (client, stub),
        pytest.raises(OutcomeUnknown),
    ):
        client.start_update("p1", refresh_selection=[])
    assert stub.paths() == [f"POST {PIPELINE}/updates"]


def test_a_start_that_is_answered_too_late_is_unknown_and_sent_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with (
            closing(PipelinesClient(url=url, token=TOKEN, timeout=0.3)) as client,
            pytest.raises(OutcomeUnknown),
        ):
            client.start_update("p1")
        listener.settimeout(0.1)
        listener.accept()[0].close()
        with pytest.raises(TimeoutError):
            listener.accept()


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_server_did_not_start_anything(status: int) -> None:
    with client_of(lambda _: Answer(status)) as (client, stub), pytest.raises(Unreachable, match="busy"):
        client.start_update("p1")
    assert len(stub.asked) == 1


def test_a_redirect_is_not_followed() -> None:
    moved = Answer(301, headers={"Location": f"{PIPELINE}/updates/"})
    with client_of(lambda _: moved) as (client, stub), pytest.raises(ApiError, match="HTTP 301"):
        client.start_update("p1")
    assert len(stub.asked) == 1


def test_a_start_sends_its_body_as_it_is_and_answers_the_id() -> None:
    with client_of(lambda _: Answer(body={"update_id": "u7"})) as (client, stub):
        assert client.start_update("p1", refresh_selection=[], reset_checkpoint_selection=["a.b.c"]) == "u7"
        assert client.start_update("p1") == "u7"
    assert [a.body for a in stub.asked] == [
        {"refresh_selection": [], "reset_checkpoint_selection": ["a.b.c"]},
        {},
    ]


ACTIVE = "An active update 'aaaa-1' already exists for pipeline 'p1'."


@pytest.mark.parametrize(
    "answer",
    [
        problem(409, "RESOURCE_CONFLICT", ACTIVE, details=[{"metadata": {"update_id": "aaaa-1"}}]),
        problem(409, "INVALID_STATE", ACTIVE),
        problem(400, "INVALID_STATE", ACTIVE),
        Answer(400, {"error": ACTIVE}),
    ],
)
def test_an_active_update_is_recognised_by_its_status_and_code(answer: Answer) -> None:
    with client_of(lambda _: answer) as (client, stub), pytest.raises(ActiveUpdate) as caught:
        client.start_update("p1")
    assert caught.value.update_id == "aaaa-1"
    assert len(stub.asked) == 1


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (problem(500, "INTERNAL_ERROR", ACTIVE), OutcomeUnknown),
        (problem(400, "INVALID_PARAMETER_VALUE", ACTIVE), ApiError),
        (problem(403, "PERMISSION_DENIED", ACTIVE), ApiDenied),
        (problem(404, "RESOURCE_DOES_NOT_EXIST", ACTIVE), NotFound),
        (problem(409, "RESOURCE_ALREADY_EXISTS", ACTIVE), ApiError),
    ],
)
def test_words_of_an_active_update_under_another_code_are_no_active_update(
    answer: Answer, error: type[RepriseError]
) -> None:
    with client_of(lambda _: answer) as (client, _), pytest.raises(RepriseError) as caught:
        client.start_update("p1")
    assert type(caught.value) is error


@pytest.mark.parametrize(("state", "error"), [("RUNNING", ActiveUpdate), ("COMPLETED", ApiError)])
def test_a_wordless_conflict_is_looked_up(state: str, error: type[RepriseError]) -> None:
    updates = Answer(body={"updates": [{"update_id": "u9", "state": state}]})
    with client_of(in_turn(problem(409, "RESOURCE_CONFLICT", "Conflict."), updates)) as (client, _):
        with pytest.raises(error) as caught:
            client.start_update("p1")
        assert getattr(caught.value, "update_id", "u9") == "u9"


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (problem(404, "RESOURCE_DOES_NOT_EXIST", "Pipeline p1 was not found."), NotFound, "p1 was not found"),
        (Answer(404, b"<html><pre>no route</pre></html>"), NotFound, "no route"),
        (problem(401, "UNAUTHENTICATED", "No credential."), ApiDenied, "does not accept the workspace's token"),
        (problem(403, "PERMISSION_DENIED", f"{TOKEN} may not."), ApiDenied, "… may not."),
        (problem(400, "INVALID_PARAMETER_VALUE", "Bad filter."), ApiError, "Bad filter."),
        (Answer(400, {"error": "old style"}), ApiError, "old style"),
        (Answer(400, {"detail": "scim", "status": "400"}), ApiError, "scim"),
        (Answer(400, b""), ApiError, "without a message"),
        (Answer(200, b"<html>login</html>"), ApiError, "not its JSON"),
        (Answer(200, [1, 2]), ApiError, "not its JSON"),
        (Answer(302, headers={"Location": "/login"}), ApiError, "HTTP 302"),
    ],
)  # fmt: skip
def test_a_refusal_is_one_sentence_without_the_token(
    answer: Answer, error: type[RepriseError], says: str
) -> None:
    with client_of(lambda _: answer) as (client, _), pytest.raises(error) as caught:
        client.get_pipeline("p1")
    assert says in caught.value.sentence
    assert TOKEN not in caught.value.sentence + repr(client)


@pytest.mark.parametrize("bad", ["", "..", "a/b", "a?b", "a b", "x" * 300, "ü/../"])
def test_what_is_no_id_never_reaches_the_network(bad: str) -> None:
    with client_of(lambda _: Answer()) as (client, stub), pytest.raises(NotFound):
        client.get_pipeline(bad)
    assert not stub.asked


def test_stop_takes_an_empty_answer() -> None:
    with client_of(lambda _: Answer(body=b"")) as (client, stub):
        client.stop("p1")
    assert stub.paths() == [f"POST {PIPELINE}/stop"]
    assert stub.asked[0].body is None


@pytest.mark.parametrize(
    ("there", "sent"),
    [
        ({"object_type": "FILE"}, {"format": "RAW"}),
        ({"object_type": "NOTEBOOK", "language": "SQL"}, {"format": "SOURCE", "language": "SQL"}),
    ],
)
def test_a_file_stays_a_file_and_a_notebook_a_notebook(there: dict[str, str], sent: dict[str, str]) -> None:
    with client_of(in_turn(Answer(body=there), Answer())) as (client, stub):
        client.import_file("/r/a.py", b"x = 1\n")
    content = base64.b64encode(b"x = 1\n").decode()
    assert stub.asked[1].body == {"path": "/r/a.py", "overwrite": True, "content": content, **sent}


def test_a_new_file_gets_its_folder_first() -> None:
    missing = problem(404, "RESOURCE_DOES_NOT_EXIST", "Path (/r/b/a.py) doesn't exist.")
    with client_of(in_turn(missing, Answer())) as (client, stub):
        client.import_file("/r/b/a.py", b"x")
    assert [a.path.rsplit("/", 1)[1] for a in stub.asked] == ["get-status", "mkdirs", "import"]
    assert stub.asked[1].body == {"path": "/r/b"}


def test_a_file_above_ten_megabytes_is_refused_here() -> None:
    with client_of(lambda _: Answer()) as (client, stub), pytest.raises(Refused, match="at most"):
        client.import_file("/a.py", b"x" * (10 * 1024 * 1024 + 1))
    assert not stub.asked


def test_source_comes_as_bytes_or_as_nothing() -> None:
    file = {"path": "/r/a.py", "sha256": "0", "content": base64.b64encode(b"\xff\x00").decode()}
    with client_of(in_turn(Answer(body={"files": [file]}), Answer(404))) as (client, _):
        assert client.update_source("p1", "u1") == {"/r/a.py": b"\xff\x00"}
        assert client.update_source("p1", "u1") is None


@pytest.mark.parametrize("content", ["%%%", "YWJ", 7])
def test_an_export_that_cannot_be_read_is_said(content: Any) -> None:
    with client_of(lambda _: Answer(body={"content": content})) as (client, _), pytest.raises(ApiError):
        client.export("/r/a.py")


def test_no_proxy_of_the_environment_is_asked_for_an_address_that_may_not_be_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(lambda _: Answer()) as stub:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, stub.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        transport = Transport(
            url="http://169.254.169.254",
            token="t",
            timeout=0.2,
            pause=lambda _: None,
            allowed=AllowedAddresses(),
        )
        with pytest.raises(Unreachable):
            transport.get("/latest/meta-data")
    assert stub.asked == []


def test_authorities_of_the_environment_are_trusted_still(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/authorities.pem")
    assert Transport(url="https://x", token="t")._session.verify == "/authorities.pem"


def test_a_netrc_entry_never_takes_the_place_of_the_token(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login eve password guess\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with client_of(lambda _: Answer()) as (client, stub):
        client.get_pipeline("p1")
    assert stub.asked[0].headers["Authorization"] == f"Bearer {TOKEN}"


def test_half_a_character_of_an_api_reaches_no_page_and_no_database() -> None:
    assert kept_text({"a\ud800": ["\0", {"b": "\udfffx", "n": 1}]}) == {
        "a\ufffd": ["\ufffd", {"b": "\ufffdx", "n": 1}]
    }


@pytest.mark.parametrize("body", [{"a": "x" * 5000}, {"a": [{}] * 3000}], ids=["bytes", "values"])
def test_an_answer_beyond_its_bounds_is_none_and_of_an_act_its_outcome_is_unknown(
    monkeypatch: pytest.MonkeyPatch, body: Any
) -> None:
    monkeypatch.setattr(transport, "MOST_ANSWER", 4000 if isinstance(body["a"], str) else 10**6)
    monkeypatch.setattr(bounded, "MOST_VALUES", 2000)
    with client_of(in_turn(Answer(body=body))) as (client, stub):
        with pytest.raises(ApiError):
            client.get_pipeline("p1")
        with pytest.raises(OutcomeUnknown):
            client.start_update("p1")
    assert len(stub.asked) == 2
