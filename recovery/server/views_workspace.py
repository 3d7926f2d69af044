"""The workspace API: get-status, list, export, import (JSON, multipart and raw bytes), delete, mkdirs."""

import base64
import binascii
from pathlib import Path
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.multipartparser import MultiPartParserError

from recovery.server.fields import IMPORT, check_fields
from recovery.server.http import empty_answer, is_form, length_of, raw_body, read_flag, sent_body
from recovery.server.instance import current_instance
from recovery.server.problems import ApiProblem, invalid_request
from recovery.server.workspace import WorkspaceFolder


def current_workspace() -> WorkspaceFolder:
    """The workspace of this server."""
    return current_instance().workspace


def path_of(values: Any) -> str:
    """The `path` of a request. Raises ApiProblem 400."""
    path = values.get("path")
    if not isinstance(path, str) or not path:
        raise invalid_request("Missing required field: path")
    return path


def get_status(request: HttpRequest) -> HttpResponse:
    """GET /workspace/get-status."""
    return JsonResponse(current_workspace().status(path_of(request.GET)))


def list_folder(request: HttpRequest) -> HttpResponse:
    """GET /workspace/list: one folder, not what is beneath it."""
    objects = current_workspace().children(path_of(request.GET))
    return JsonResponse({"objects": objects} if objects else {})


def export_file(request: HttpRequest) -> HttpResponse:
    """GET /workspace/export: base64 in JSON, or the bytes themselves with direct_download."""
    path = path_of(request.GET)
    fmt = request.GET.get("format", "SOURCE")
    if fmt not in ("SOURCE", "RAW", "AUTO"):
        raise invalid_request(f"Export format {fmt} is not supported here; use SOURCE, RAW or AUTO.")
    content = current_workspace().read(path)
    if read_flag(request.GET.get("direct_download"), "direct_download"):
        return HttpResponse(content, content_type="application/octet-stream")
    file_type = Path(path).suffix.lstrip(".") or "file"
    return JsonResponse({"content": base64.b64encode(content).decode(), "file_type": file_type})


def import_file(request: HttpRequest) -> HttpResponse:
    """POST /workspace/import, as JSON (base64 content) or as multipart form."""
    if is_form(request):
        values, content = read_multipart(request)
    else:
        values = sent_body(request)
        content = decode_base64(values.get("content", ""))
    current_workspace().write(
        path_of(values),
        content,
        fmt=str(values.get("format") or "SOURCE").upper(),
        language=str(values.get("language") or "").upper(),
        overwrite=read_flag(values.get("overwrite"), "overwrite"),
    )
    return empty_answer()


def import_bytes(request: HttpRequest, path: str) -> HttpResponse:
    """POST /workspace-files/import-file/{path}: the body as it is. A file that is there is 409 without `overwrite`."""
    place, overwrite = f"/{path.lstrip('/')}", read_flag(request.GET.get("overwrite"), "overwrite")
    content = raw_body(request)
    if not overwrite and current_workspace().locate(place).is_file():
        raise ApiProblem(409, "RESOURCE_ALREADY_EXISTS", f"File already exists at ({place}).")
    current_workspace().write(place, content, fmt="AUTO", language="", overwrite=overwrite)
    return empty_answer()


def decode_base64(content: Any) -> bytes:
    """The bytes of base64 text. Raises ApiProblem 400."""
    try:
        return base64.b64decode(str(content), validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid_request("content must be base64.") from error


def read_multipart(request: HttpRequest) -> tuple[dict[str, Any], bytes]:
    """Fields and content of a multipart form. Raises ApiProblem 400."""
    length_of(request)
    try:
        values: dict[str, Any] = request.POST.dict()
        check_fields({name: value for name, value in values.items() if name != "overwrite"}, IMPORT)
        upload = request.FILES.get("content")
    except MultiPartParserError as error:
        raise invalid_request(f"The multipart form cannot be read: {error}") from error
    return values, upload.read() if upload is not None else str(values.get("content", "")).encode()


def delete_path(request: HttpRequest) -> HttpResponse:
    """POST /workspace/delete."""
    body = sent_body(request)
    current_workspace().delete(path_of(body), recursive=read_flag(body.get("recursive"), "recursive"))
    return empty_answer()


def make_folder(request: HttpRequest) -> HttpResponse:
    """POST /workspace/mkdirs."""
    current_workspace().make_folder(path_of(sent_body(request)))
    return empty_answer()
