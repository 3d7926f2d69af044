"""One place where a request becomes an answer: authentication, JSON, and every failure as JSON.

Django's own handler would speak HTML for 404 and 500, redirect to a slash, and use the console's URLs. The
official SDK misreads all three (a redirect even turns a POST into a GET that "succeeds").
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import RequestDataTooBig, TooManyFilesSent
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.urls import Resolver404, set_urlconf

from recovery import trace
from recovery.bounded import read_json
from recovery.names import shown
from recovery.numbers import whole
from recovery.server.auth import authenticate_header
from recovery.server.driver import SparkDead
from recovery.server.fields import Fields, check_fields, check_texts
from recovery.server.problems import ApiProblem, invalid_request

LOG = logging.getLogger(__name__)
URLCONF = "recovery.server.urls"
PUBLIC = frozenset({"/.well-known/databricks-config"})
LARGEST_BODY = 15 * 1024 * 1024  # a file of 10 MB as base64, and some
LARGEST_QUESTION = 64 * 1024 * 1024  # the code of a pipeline, and the paths of hundreds of thousands of files
WITH_BODY = ("POST", "PUT", "PATCH")
View = Callable[..., HttpResponseBase]


class ApiRequest(HttpRequest):
    """A request whose token was checked: `user_name` owns it."""

    user_name: str


def answer_problem(problem: ApiProblem) -> JsonResponse:
    """The answer of an expected failure."""
    return JsonResponse(problem.body(), status=problem.status)


class ApiHandler(WSGIHandler):
    """A WSGI application with the server's URLs and nothing of the console's middleware."""

    def load_middleware(self, is_async: bool = False) -> None:
        """No middleware: sessions, CSRF and redirects have no place in an API of bearer tokens."""
        self._view_middleware: list[Any] = []
        self._template_response_middleware: list[Any] = []
        self._exception_middleware: list[Any] = []
        self._middleware_chain = self.handle

    def get_response(self, request: HttpRequest) -> HttpResponseBase:
        """As Django's, with this server's URLs. The caller's `X-Request-ID` is in every line that is logged here."""
        set_urlconf(URLCONF)
        request.urlconf = URLCONF
        with trace.bound(trace.accepted(request.headers.get(trace.HEADER, ""), "api")) as request_id:
            response = self.handle(request)
            if request.method != "GET":
                LOG.info("%s %s %s", request.method, shown(request.path_info), response.status_code)
        response[trace.HEADER] = request_id
        return response

    def handle(self, request: HttpRequest) -> HttpResponseBase:
        """Authenticate, answer, and turn every failure into JSON."""
        try:
            if request.path_info not in PUBLIC:
                owner = authenticate_header(request.headers.get("Authorization"))
                request.user_name = owner.user_name  # type: ignore[attr-defined]
            response: HttpResponseBase = self._get_response(request)  # type: ignore[attr-defined]
            return response
        except Resolver404:
            text = f"No API found for '{request.method} {request.path_info}'"
            return answer_problem(ApiProblem(404, "ENDPOINT_NOT_FOUND", text))
        except ApiProblem as problem:
            return answer_problem(problem)
        except (RequestDataTooBig, TooManyFilesSent) as error:
            return answer_problem(
                ApiProblem(400, "INVALID_PARAMETER_VALUE", f"The request is too large: {error}")
            )
        except SparkDead as error:
            return answer_problem(ApiProblem(500, "INTERNAL_ERROR", str(error)))
        except Exception:
            LOG.exception("%s %s", request.method, request.path_info)
            text = "The server met an error of its own; see its log."
            return answer_problem(ApiProblem(500, "INTERNAL_ERROR", text))


@dataclass(frozen=True)
class Route:
    """One method of one address, what it takes and what it is for."""

    method: str
    #: as OpenAPI writes it, `/api/2.0/pipelines/{pipeline_id}`
    path: str
    view: View
    query: Fields = ()
    #: the fields that its JSON may hold; None: raw bytes, or not looked at
    body: Fields | None = ()
    #: its name in the OpenAPI document
    answer: str = "Nothing"
    #: bytes of a JSON body
    largest: int = LARGEST_BODY


def sent_body(request: HttpRequest) -> dict[str, Any]:
    """The JSON body of a request, its fields checked. {} of a route that takes none."""
    body: dict[str, Any] = request.sent  # type: ignore[attr-defined]
    return body


def answer_routes(routes: Iterable[Route]) -> View:
    """The view of one address: each route answers its method. Others get 405 in JSON.

    A JSON body is read and checked here, so that no view can forget an unknown field.
    """
    by_method = {route.method: route for route in routes}

    def dispatch(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        route = by_method.get(request.method or "")
        if route is None:
            allowed = ", ".join(sorted(by_method))
            text = f"{request.method} is not allowed on {request.path_info}; allowed: {allowed}."
            response = answer_problem(ApiProblem(405, "METHOD_NOT_ALLOWED", text))
            response["Allow"] = allowed
            return response
        check_texts([request.path_info, dict(request.GET.lists())])
        if route.body is not None and request.method in WITH_BODY and not is_form(request):
            request.sent = json_body(request, route.largest)  # type: ignore[attr-defined]
            check_fields(request.sent, route.body)  # type: ignore[attr-defined]
        return route.view(request, *args, **kwargs)

    return dispatch


def is_form(request: HttpRequest) -> bool:
    """Whether the body is a multipart form, which a view reads itself."""
    return (request.content_type or "").startswith("multipart/")


def raw_body(request: HttpRequest, largest: int = LARGEST_BODY) -> bytes:
    """The body as it was sent. Raises ApiProblem 400 for one that is too large."""
    return request.read(length_of(request, largest))


def length_of(request: HttpRequest, largest: int = LARGEST_BODY) -> int:
    """How long the body is, in bytes. Raises ApiProblem 400 for one that is too large."""
    length = whole(request.META.get("CONTENT_LENGTH") or "0")
    if length is None or length > largest:
        raise invalid_request(f"The request body may be at most {largest} bytes.")
    return length


def json_body(request: HttpRequest, largest: int = LARGEST_BODY) -> dict[str, Any]:
    """The JSON object of a request; no body at all is an empty one. Raises ApiProblem 400."""
    raw = raw_body(request, largest)
    if not raw.strip():
        return {}
    try:
        body = read_json(raw)
    except ValueError as error:
        raise ApiProblem(400, "MALFORMED_REQUEST", "The request body is not valid JSON.") from error
    if not isinstance(body, dict):
        raise invalid_request("The request body must be a JSON object.")
    return body


def read_flag(value: Any, name: str, *, default: bool = False) -> bool:
    """A boolean of a query string or body. Raises ApiProblem 400."""
    if value is None or value == "":
        return default
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    raise invalid_request(f"{name} must be true or false.")


def empty_answer() -> HttpResponse:
    """`{}`."""
    return JsonResponse({})
