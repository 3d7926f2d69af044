"""The workspace API: get-status, list, export, import (JSON, multipart and raw bytes), delete, mkdirs."""

import base64
import binascii
from pathlib import Path
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.multipartparser import MultiPartParserError

from recovery.server.fields import IMPORT, check
from recovery.server.http import empty, flag, is_form, length_of, raw_body, sent
from recovery.server.instance import current
from recovery.server.problems import ApiProblem, invalid
from recovery.server.workspace import Workspace


def workspace() -> Workspace:
    """The workspace of this server."""
    return current().workspace


def path_of(values: Any) -> str:
    """The `path` of a request. Raises ApiProblem 400."""
    path = values.get("path")
    if not isinstance(path, str) or not path:
        raise invalid("Missing required field: path")
    return path


def status(request: HttpRequest) -> HttpResponse:
    """GET /workspace/get-status."""
    return JsonResponse(workspace().status(path_of(request.GET)))


def listing(request: HttpRequest) -> HttpResponse:
    """GET /workspace/list: one folder, not what is beneath it."""
    objects = workspace().children(path_of(request.GET))
    return JsonResponse({"objects": objects} if objects else {})


def export(request: HttpRequest) -> HttpResponse:
    """GET /workspace/export: base64 in JSON, or the bytes themselves with direct_download."""
    path = path_of(request.GET)
    fmt = request.GET.get("format", "SOURCE")
    if fmt not in ("SOURCE", "RAW", "AUTO"):
        raise invalid(f"Export format {fmt} is not supported here; use SOURCE, RAW or AUTO.")
    content = workspace().read(path)
    if flag(request.GET.get("direct_download"), "direct_download"):
        return HttpResponse(content, content_type="application/octet-stream")
    file_type = Path(path).suffix.lstrip(".") or "file"
    return JsonResponse({"content": base64.b64encode(content).decode(), "file_type": file_type})


def import_file(request: HttpRequest) -> HttpResponse:
    """POST /workspace/import, as JSON (base64 content) or as multipart form."""
    if is_form(request):
        values, content = multipart(request)
    else:
        values = sent(request)
        content = decoded(values.get("content", ""))
    workspace().write(
        path_of(values),
        content,
        fmt=str(values.get("format") or "SOURCE").upper(),
        language=str(values.get("language") or "").upper(),
        overwrite=flag(values.get("overwrite"), "overwrite"),
    )
    return empty()


def import_bytes(request: HttpRequest, path: str) -> HttpResponse:
    """POST /workspace-files/import-file/{path}: the body as it is. A file that is there is 409 without `overwrite`."""
    place, overwrite = f"/{path.lstrip('/')}", flag(request.GET.get("overwrite"), "overwrite")
    content = raw_body(request)
    if not overwrite and workspace().locate(place).is_file():
        raise ApiProblem(409, "RESOURCE_ALREADY_EXISTS", f"File already exists at ({place}).")
    workspace().write(place, content, fmt="AUTO", language="", overwrite=overwrite)
    return empty()


def decoded(content: Any) -> bytes:
    """The bytes of base64 text. Raises ApiProblem 400."""
    try:
        return base64.b64decode(str(content), validate=True)
    except (binascii.Error, ValueError) as error:
        raise invalid("content must be base64.") from error


def multipart(request: HttpRequest) -> tuple[dict[str, Any], bytes]:
    """Fields and content of a multipart form. Raises ApiProblem 400."""
    length_of(request)
    try:
        values: dict[str, Any] = request.POST.dict()
        check({name: value for name, value in values.items() if name != "overwrite"}, IMPORT)
        upload = request.FILES.get("content")
    except MultiPartParserError as error:
        raise invalid(f"The multipart form cannot be read: {error}") from error
    return values, upload.read() if upload is not None else str(values.get("content", "")).encode()


def delete(request: HttpRequest) -> HttpResponse:
    """POST /workspace/delete."""
    body = sent(request)
    workspace().delete(path_of(body), recursive=flag(body.get("recursive"), "recursive"))
    return empty()


def mkdirs(request: HttpRequest) -> HttpResponse:
    """POST /workspace/mkdirs."""
    workspace().make_folder(path_of(sent(request)))
    return empty()
