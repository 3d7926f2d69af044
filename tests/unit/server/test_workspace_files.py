"""Files as the official command line sends them: raw bytes, and paths that begin with /Workspace."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest

from recovery.server.confinement import PathAccess
from recovery.server.http import LARGEST_BODY
from recovery.server.jail import machine_confinement
from recovery.server.models import Update
from recovery.server.sources import take_snapshot
from recovery.server.workspace import WorkspaceFolder
from tests.unit.server.api import Asker

pytestmark = pytest.mark.django_db(databases=["default", "pipelines"])
RAW = "/workspace-files/import-file"
CODE = b"x = 1\n"


def test_raw_bytes_go_round(asker: Asker) -> None:
    lacking = asker.send("POST", f"{RAW}/Workspace%2FUsers%2Fada%2Fa.py?overwrite=true", CODE)
    assert (lacking.status, lacking.code) == (404, "RESOURCE_DOES_NOT_EXIST")

    asker.send("POST", "/workspace/mkdirs", {"path": "/Workspace/Users/ada"})
    first = asker.send("POST", f"{RAW}/Workspace%2FUsers%2Fada%2Fa.py?overwrite=false", CODE)
    assert (first.status, first.body) == (200, {})
    again = asker.send("POST", f"{RAW}/Users/ada/a.py", b"other")
    assert (again.status, again.code) == (409, "RESOURCE_ALREADY_EXISTS")
    assert asker.send("POST", f"{RAW}/Users/ada/a.py?overwrite=true", b"\xff\x00").status == 200
    exported = asker.send("GET", "/workspace/export?path=/Workspace/Users/ada/a.py").body
    assert base64.b64decode(exported["content"]) == b"\xff\x00"


def test_raw_bytes_of_a_notebook_lose_their_extension(asker: Asker) -> None:
    asker.send("POST", "/workspace/mkdirs", {"path": "/n"})
    book = b"# Databricks notebook source\nx = 1\n"
    assert asker.send("POST", f"{RAW}/n/book.py", book).status == 200
    there = asker.send("POST", f"{RAW}/n/book.py", book)
    assert (there.status, there.code) == (400, "RESOURCE_ALREADY_EXISTS")
    assert asker.send("GET", "/workspace/get-status?path=/n/book").body["object_type"] == "NOTEBOOK"


@pytest.mark.parametrize("path", ["Workspace%2F..%2F..%2Fpipelines.token", "%2E%2E/pipelines.token", "a%00b"])
def test_raw_bytes_cannot_climb_out(asker: Asker, path: str) -> None:
    asked = asker.send("POST", f"{RAW}/{path}?overwrite=true", CODE)
    assert (asked.status, asked.code) == (400, "INVALID_PARAMETER_VALUE")


def test_one_place_has_two_spellings_and_is_answered_in_the_one_that_was_asked(asker: Asker) -> None:
    asker.send("POST", "/workspace/mkdirs", {"path": "/Users/ada"})
    asker.send("POST", f"{RAW}/Users/ada/a.py", CODE)
    for root in ("", "/Workspace"):
        listed = asker.send("GET", f"/workspace/list?path={root}/Users/ada").body["objects"]
        seen = asker.send("GET", f"/workspace/get-status?path={root}/Users/ada/a.py").body
        assert [listed[0]["path"], seen["path"]] == [f"{root}/Users/ada/a.py"] * 2
    ids = [
        asker.send("GET", f"/workspace/get-status?path={path}").body["object_id"]
        for path in ("/Users/ada", "/Workspace/Users/ada")
    ]
    assert ids[0] == ids[1]
    assert asker.send("GET", "/workspace/get-status?path=/Workspace").body["object_type"] == "DIRECTORY"
    asker.send("POST", "/workspace/delete", {"path": "/Workspace/Users", "recursive": True})
    assert asker.send("GET", "/workspace/get-status?path=/Users").status == 404
    assert asker.send("POST", "/workspace/delete", {"path": "/Workspace", "recursive": True}).status == 400


def test_a_folder_of_that_name_that_was_there_before_keeps_its_files(asker: Asker) -> None:
    old = asker.home / "workspace" / "Workspace" / "Users"
    old.mkdir(parents=True)
    (old / "a.py").write_bytes(CODE)
    assert asker.send("GET", "/workspace/get-status?path=/Workspace/Users/a.py").status == 200


@pytest.mark.parametrize("path", ["/Workspace/Workspace", "/Workspace/Workspace/x", "//Workspace/Workspace"])
def test_no_folder_hides_the_other_spelling(asker: Asker, path: str) -> None:
    asker.send("POST", "/workspace/mkdirs", {"path": "/Users"})
    made = asker.send("POST", "/workspace/mkdirs", {"path": path})
    assert (made.status, made.code) == (400, "INVALID_PARAMETER_VALUE")
    assert asker.send("POST", "/workspace/mkdirs", {"path": "//Workspace/x"}).status == 200
    assert asker.send("GET", "/workspace/get-status?path=/Workspace/Users").status == 200


def test_two_imports_of_one_file_at_once_share_no_draft(
    asker: Asker, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, sync = WorkspaceFolder(asker.home / "workspace"), os.fsync

    def meanwhile(number: int) -> None:
        monkeypatch.setattr(os, "fsync", sync)
        files.write("/a.py", b"second", fmt="RAW", language="", overwrite=True)

    files.write("/a.py", b"", fmt="RAW", language="", overwrite=True)
    monkeypatch.setattr(os, "fsync", meanwhile)
    files.write("/a.py", b"first", fmt="RAW", language="", overwrite=True)
    assert files.read("/a.py") == b"first"
    assert [f.name for f in files.root.iterdir()] == ["a.py"]


@pytest.mark.parametrize("root", ["", "/Workspace"])
def test_a_pipeline_runs_the_files_of_either_spelling(asker: Asker, root: str) -> None:
    top = asker.home / "workspace" / "Users" / "ada"
    (top / "lib").mkdir(parents=True)
    (top / "a.py").write_bytes(CODE)
    (top / "lib" / "helper.py").write_bytes(CODE)
    spec = {
        "root_path": f"{root}/Users/ada",
        "libraries": [{"glob": {"include": f"{root}/Users/ada/a*"}}],
    }
    found = take_snapshot(spec, WorkspaceFolder(asker.home / "workspace"), asker.home / "copy")
    assert [path for path, _ in found.files] == [f"{root}/Users/ada/a.py"]
    assert (found.root / "a.py").is_file()
    assert (found.root / "lib" / "helper.py").is_file()


def test_a_form_with_a_field_that_nobody_knows_is_refused(asker: Asker) -> None:
    form = b'--B\r\nContent-Disposition: form-data; name="%s"\r\n\r\nx\r\n--B--\r\n'
    asked = asker.send(
        "POST", "/workspace/import", form % b"bogus", content_type="multipart/form-data; boundary=B"
    )
    assert (asked.status, asked.code) == (400, "INVALID_PARAMETER_VALUE")
    assert "bogus" in asked.body["message"]


LONG = "n" * 256
UNFIT = (
    "/" + LONG,
    f"/{LONG}/x.py",
    "/ü" * 2000,
    "/" + "ü" * 128,
    "/a\x1b[2J.py",
    "/a\nb",
    "/a\u202eb",
    "/a\x7f",
)


@pytest.mark.parametrize("path", UNFIT)
def test_a_name_that_no_file_can_have_or_that_shows_as_another_is_refused(asker: Asker, path: str) -> None:
    content = base64.b64encode(CODE).decode()
    asked = [
        asker.send("POST", "/workspace/mkdirs", {"path": path}),
        asker.send("POST", "/workspace/import", {"path": path, "content": content, "format": "AUTO"}),
    ]
    assert [(answer.status, answer.code) for answer in asked] == [(400, "INVALID_PARAMETER_VALUE")] * 2


def test_a_name_of_255_bytes_is_stored_and_read(asker: Asker) -> None:
    path = "/" + "ü" * 127 + "x"
    content = base64.b64encode(CODE).decode()
    assert (
        asker.send("POST", "/workspace/import", {"path": path, "content": content, "format": "AUTO"}).status
        == 200
    )
    assert asker.send("POST", "/workspace/mkdirs", {"path": "/" + "d" * 255}).status == 200


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"schema": "other_db"}, 400),
        ({"catalog": "other"}, 400),
        ({"storage": "file:/elsewhere"}, 400),
        ({"schema": None, "target": "own_db"}, 200),
        ({"name": "renamed"}, 200),
    ],
)
def test_a_pipeline_that_has_run_keeps_the_place_of_its_checkpoints(
    asker: Asker, change: dict[str, str | None], status: int
) -> None:
    made = asker.make(schema="own_db")
    body = {name: value for name, value in (made.spec | change).items() if value is not None}
    assert asker.send("PUT", f"/pipelines/{made.pk}", body | {"id": made.pk}).status == 200, "it never ran"
    asker.send("PUT", f"/pipelines/{made.pk}", made.spec | {"id": made.pk})
    Update.objects.create(pipeline=made, spec=made.spec, created_ms=1, state="COMPLETED")
    assert asker.send("PUT", f"/pipelines/{made.pk}", body | {"id": made.pk}).status == status


def test_a_form_that_is_too_large_is_refused_before_it_is_read(asker: Asker) -> None:
    form = b'--B\r\nContent-Disposition: form-data; name="content"; filename="a.py"\r\n\r\n%s\r\n--B--\r\n'
    body = form % (b"x" * LARGEST_BODY)

    asked = asker.send("POST", "/workspace/import", body, content_type="multipart/form-data; boundary=B")

    assert (asked.status, asked.code) == (400, "INVALID_PARAMETER_VALUE")


def test_an_upload_never_lies_where_pipelines_code_may_write(settings: Any) -> None:
    confinement = machine_confinement(home=Path(settings.REPRISE_HOME))

    assert confinement.sight(Path(settings.FILE_UPLOAD_TEMP_DIR) / "a.upload.py") is PathAccess.HIDDEN
