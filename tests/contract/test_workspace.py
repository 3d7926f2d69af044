"""The workspace API: what goes in comes out, and no path leads out."""

import base64
import io

import pytest

from tests.contract.lab import Api

CODE = b"# a definition\nvalue = 1\n"


@pytest.fixture(scope="module", autouse=True)
def folder(api: Api) -> str:
    api.call("POST", "/workspace/mkdirs", json={"path": "/Users/tester/files"})
    return "/Users/tester/files"


def imported(api: Api, path: str, content: bytes, **more: object) -> tuple[int, dict[str, str]]:
    body = {"path": path, "format": "RAW", "content": base64.b64encode(content).decode()} | more
    response = api.send("POST", "/workspace/import", json=body)
    return response.status_code, response.json()


def test_a_file_goes_round_as_json_and_as_multipart(api: Api, folder: str) -> None:
    assert imported(api, f"{folder}/json.py", CODE) == (200, {})
    form = {"path": f"{folder}/form.py", "format": "AUTO", "overwrite": "true"}
    api.call("POST", "/workspace/import", data=form, files={"content": ("form.py", io.BytesIO(CODE))})
    for name in ("json.py", "form.py"):
        exported = api.call("GET", "/workspace/export", params={"path": f"{folder}/{name}"})
        assert base64.b64decode(exported["content"]) == CODE
        raw = api.send(
            "GET", "/workspace/export", params={"path": f"{folder}/{name}", "direct_download": "true"}
        )
        assert raw.content == CODE
    status = api.call("GET", "/workspace/get-status", params={"path": f"{folder}/json.py"})
    assert (status["object_type"], status["size"]) == ("FILE", len(CODE))
    listed = api.call("GET", "/workspace/list", params={"path": folder})["objects"]
    assert {entry["path"] for entry in listed} >= {f"{folder}/json.py", f"{folder}/form.py"}


def test_a_large_file_goes_round_and_a_larger_one_is_refused(api: Api, folder: str) -> None:
    large = b"x" * (10 * 1024 * 1024)
    assert imported(api, f"{folder}/large.py", large) == (200, {})
    raw = api.send(
        "GET", "/workspace/export", params={"path": f"{folder}/large.py", "direct_download": "true"}
    )
    assert raw.content == large
    status, body = imported(api, f"{folder}/larger.py", large + b"y")
    assert (status, body["error_code"]) == (400, "MAX_NOTEBOOK_SIZE_EXCEEDED")


def test_nothing_is_overwritten_unasked(api: Api, folder: str) -> None:
    assert imported(api, f"{folder}/kept.py", CODE) == (200, {})
    status, body = imported(api, f"{folder}/kept.py", b"other")
    assert (status, body["error_code"]) == (400, "RESOURCE_ALREADY_EXISTS")
    assert imported(api, f"{folder}/kept.py", b"other", overwrite=True) == (200, {})


def test_a_notebook_stays_a_notebook(api: Api, folder: str) -> None:
    assert imported(api, f"{folder}/book", b"x = 1\n", format="SOURCE", language="PYTHON") == (200, {})
    status = api.call("GET", "/workspace/get-status", params={"path": f"{folder}/book"})
    assert (status["object_type"], status["language"]) == ("NOTEBOOK", "PYTHON")
    code, body = imported(api, f"{folder}/book", b"plain", overwrite=True)
    assert code == 400
    assert "type mismatch (asked: FILE, actual: NOTEBOOK)" in body["message"]


def test_folders_are_deleted_only_when_empty_or_asked(api: Api, folder: str) -> None:
    api.call("POST", "/workspace/mkdirs", json={"path": f"{folder}/full"})
    imported(api, f"{folder}/full/a.py", CODE)
    refused = api.send("POST", "/workspace/delete", json={"path": f"{folder}/full"})
    assert (refused.status_code, refused.json()["error_code"]) == (400, "DIRECTORY_NOT_EMPTY")
    api.call("POST", "/workspace/delete", json={"path": f"{folder}/full", "recursive": True})
    gone = api.send("GET", "/workspace/get-status", params={"path": f"{folder}/full"})
    assert (gone.status_code, gone.json()["error_code"]) == (404, "RESOURCE_DOES_NOT_EXIST")


@pytest.mark.parametrize(
    "path", ["/../pipelines.token", "/Users/../../pipelines.token", "pipelines.token", "/a/./b", ""]
)
def test_no_path_climbs_out(api: Api, path: str) -> None:
    for route in ("get-status", "list", "export"):
        response = api.send("GET", f"/workspace/{route}", params={"path": path})
        assert response.status_code == 400, response.text
    for route in ("import", "delete", "mkdirs"):
        assert (
            api.send("POST", f"/workspace/{route}", json={"path": path, "format": "RAW"}).status_code == 400
        )


def test_a_link_out_of_the_workspace_is_not_followed(api: Api, folder: str) -> None:
    link = api.server.home / "workspace" / "Users" / "tester" / "files" / "secret.py"
    link.symlink_to(api.server.home / "pipelines.token")
    response = api.send("GET", "/workspace/export", params={"path": f"{folder}/secret.py"})
    assert response.status_code == 400
    assert "symbolic link" in response.json()["message"]
    assert all(
        "secret" not in e["path"]
        for e in api.call("GET", "/workspace/list", params={"path": folder})["objects"]
    )
