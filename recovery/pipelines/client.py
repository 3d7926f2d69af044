"""Speaks the Pipelines API, of our own server or of a Databricks workspace alike.

Written by hand rather than over an SDK: the SDK throws the payload of events away and sends an
unanswered start a second time.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final

from recovery.errors import NotFound, OutcomeUnknown, Refused
from recovery.outbound import AllowedAddresses
from recovery.pipelines.errors import ActiveUpdate, ApiDenied, ApiError
from recovery.pipelines.events import ENDED
from recovery.pipelines.standstill import StandstillProof
from recovery.pipelines.transport import ResponseHead, Transport

__all__ = ["ActiveUpdate", "ApiDenied", "ApiError", "PipelinesClient"]

API: Final = "/api/2.0"
JOBS: Final = "/api/2.2/jobs"
EVENTS_PAGE: Final = 250
PAGES: Final = 1000
LARGEST_IMPORT: Final = 10 * 1024 * 1024
PROGRAMS: Final = "x-reprise-programs"
"""Of an item in a listing: the programs that read it. It is part of their code, whatever its name, and of no other."""


class PipelinesClient:
    """One workspace. Raises Unreachable, ApiDenied, NotFound and ApiError everywhere; acts may also raise
    OutcomeUnknown (sent, and the answer was lost). Nothing that acts is ever sent twice.
    """

    def __init__(
        self, *, url: str, token: str, timeout: float = 30.0, allowed: AllowedAddresses | None = None
    ) -> None:
        self._http = Transport(url=url, token=token, timeout=timeout, allowed=allowed)

    def __repr__(self) -> str:
        return f"PipelinesClient({self._http.url})"

    def close(self) -> None:
        self._http.close()

    def reach(self) -> ResponseHead:
        """One short question, asked once: what its answer says of the connection. Raises Unreachable."""
        return self._http.reach(f"{API}/pipelines", {"max_results": 1})

    def account(self) -> dict[str, Any]:
        """Whose token this is, as SCIM's `Me` says: `userName`, `groups[].display`."""
        return self._http.get(f"{API}/preview/scim/v2/Me")

    def rights_list(self, pipeline_id: str) -> list[dict[str, Any]]:
        """Who may do what with a pipeline: `user_name` | `group_name` | `service_principal_name`, `all_permissions`."""
        answer = self._http.get(f"{API}/permissions/pipelines/{_part(pipeline_id)}")
        rights = answer.get("access_control_list")
        return [entry for entry in rights if isinstance(entry, dict)] if isinstance(rights, list) else []

    # Pipelines

    def list_pipelines(self, filter: str | None = None) -> list[dict[str, Any]]:
        """PipelineStateInfo of every pipeline (no spec). `filter`: `name LIKE '%x%'` or `notebook='…'`."""
        first = {"filter": filter} if filter else {}
        return list(self._pages(f"{API}/pipelines", "statuses", first, page=100, limit=None))

    def get_pipeline(self, pipeline_id: str) -> dict[str, Any]:
        """GetPipelineResponse, with `spec`, `state` and `latest_updates`."""
        return self._http.get(f"{API}/pipelines/{_part(pipeline_id)}")

    def create_pipeline(self, spec: Mapping[str, Any]) -> str:
        """Create a pipeline and answer its id."""
        answer = self._http.act("POST", f"{API}/pipelines", spec)
        return self._id(answer, "pipeline_id", "create")

    def edit_pipeline(self, pipeline_id: str, spec: Mapping[str, Any]) -> None:
        """Replace the whole spec; give `expected_last_modified` to refuse a change by somebody in between."""
        self._http.act("PUT", f"{API}/pipelines/{_part(pipeline_id)}", spec)

    def delete_pipeline(self, pipeline_id: str, *, cascade: bool = False) -> None:
        """Delete a pipeline; its tables only when `cascade` is asked for (the API's own default is yes)."""
        self._http.act("DELETE", f"{API}/pipelines/{_part(pipeline_id)}", cascade=str(cascade).lower())

    # Updates

    def start_update(self, pipeline_id: str, **body: Any) -> str:
        """Start an update and answer its id. Raises ActiveUpdate (nothing started), OutcomeUnknown.

        When the API only says that there is a conflict, the active update is looked up.
        """
        try:
            answer = self._http.act("POST", f"{API}/pipelines/{_part(pipeline_id)}/updates", body)
        except ActiveUpdate as error:
            if error.update_id:
                raise
            raise self._conflict(pipeline_id, error) from error
        return self._id(answer, "update_id", "start")

    def _conflict(self, pipeline_id: str, error: ActiveUpdate) -> ActiveUpdate | ApiError:
        active = next(
            (u for u in self.list_updates(pipeline_id, limit=5) if u.get("state") not in ENDED), None
        )
        if active is None:
            return ApiError(f"The Pipelines API refused to start an update: {error.sentence}", status=409)
        return ActiveUpdate(error.sentence, update_id=str(active["update_id"]))

    def prove_standstill(self, pipeline_id: str) -> StandstillProof:
        """By what it is known that nothing runs, where no update is active. Raises Refused where nothing tells."""
        return StandstillProof.NO_ACTIVE_UPDATE

    def asks_of_people(self, pipeline_id: str, update_id: str) -> str:
        """What a person has to do now for an update that was asked for; "" where no one has to do anything."""
        return ""

    def asks_to_stop(self, pipeline_id: str) -> str:
        """What a person has to do now so that it stops; "" where `stop` does it."""
        return ""

    def stop(self, pipeline_id: str) -> None:
        """Ask for the active update to be stopped; nothing happens when there is none."""
        self._http.act("POST", f"{API}/pipelines/{_part(pipeline_id)}/stop")

    def get_update(self, pipeline_id: str, update_id: str) -> dict[str, Any]:
        """UpdateInfo: `state`, `cause`, `creation_time` (ms), selections."""
        answer = self._http.get(f"{API}/pipelines/{_part(pipeline_id)}/updates/{_part(update_id)}")
        update = answer.get("update")
        if not isinstance(update, dict):
            raise ApiError(f"The Pipelines API answered without update {update_id}.")
        return update

    def list_updates(self, pipeline_id: str, limit: int = 25) -> list[dict[str, Any]]:
        """The newest `limit` updates, newest first."""
        path = f"{API}/pipelines/{_part(pipeline_id)}/updates"
        return list(self._pages(path, "updates", {}, page=min(limit, 100), limit=limit))

    def events(
        self,
        pipeline_id: str,
        *,
        filter: str | None = None,
        order_by: str | None = None,
        limit: int | None = 250,
    ) -> Iterator[dict[str, Any]]:
        """At most `limit` events (None: all), newest first unless `order_by` is "timestamp asc".

        `filter` knows only timestamp, id, update_id and level, joined by AND. Types are sorted out here.
        """
        first = {k: v for k, v in (("filter", filter), ("order_by", order_by)) if v}
        page = min(limit or EVENTS_PAGE, EVENTS_PAGE)
        path = f"{API}/pipelines/{_part(pipeline_id)}/events"
        return self._pages(path, "events", first, page=page, limit=limit)

    # Source code

    def get_status(self, path: str) -> dict[str, Any]:
        """`object_type` (FILE, NOTEBOOK, DIRECTORY…), `language`, `modified_at` (ms). Raises NotFound."""
        return self._http.get(f"{API}/workspace/get-status", {"path": path})

    def list_dir(self, path: str) -> list[dict[str, Any]]:
        """What is directly in a folder: objects as `get_status` gives them."""
        objects = self._http.get(f"{API}/workspace/list", {"path": path}).get("objects")
        return [o for o in objects if isinstance(o, dict)] if isinstance(objects, list) else []

    def export(self, path: str) -> bytes:
        """The bytes of a file, or the source of a notebook."""
        answer = self._http.get(f"{API}/workspace/export", {"path": path, "format": "SOURCE"})
        try:
            return base64.b64decode(answer.get("content") or "", validate=True)
        except (binascii.Error, ValueError, TypeError) as error:
            raise ApiError(f"The Pipelines API answered {path} in a form that cannot be read.") from error

    def import_file(self, path: str, content: bytes, overwrite: bool = True) -> None:
        """Write a source file whole. What is a notebook stays one; a missing folder is made.

        Raises Refused above 10 MB, ApiError when it is there and `overwrite` is off.
        """
        if len(content) > LARGEST_IMPORT:
            raise Refused(
                f"{path} would have {len(content)} bytes; the workspace takes at most {LARGEST_IMPORT}."
            )
        try:
            there = self.get_status(path)
        except NotFound:
            there = {}
            self.mkdirs(path.rsplit("/", 1)[0] or "/")
        body: dict[str, Any] = {"path": path, "overwrite": overwrite, "format": "RAW"}
        if there.get("object_type") == "NOTEBOOK":
            body |= {"format": "SOURCE", "language": there.get("language") or "PYTHON"}
        body["content"] = base64.b64encode(content).decode("ascii")
        self._http.act("POST", f"{API}/workspace/import", body)

    def mkdirs(self, path: str) -> None:
        """Make a folder and its parents; nothing happens when it is there."""
        self._http.act("POST", f"{API}/workspace/mkdirs", {"path": path})

    def delete_path(self, path: str, *, recursive: bool = False) -> None:
        """Delete a file, or with `recursive` a folder."""
        self._http.act("POST", f"{API}/workspace/delete", {"path": path, "recursive": recursive})

    def update_row_settings(self, pipeline_id: str, update_id: str) -> Mapping[str, str] | None:
        """Settings of an update's session by which its rows may differ; None where the workspace does not know. The API
        has none of its own: an update runs with its pipeline's configuration."""
        return None

    def update_source(self, pipeline_id: str, update_id: str) -> dict[str, bytes] | None:
        """The definition files as that update read them, or None where the workspace does not know."""
        path = f"{API}/x-reprise/pipelines/{_part(pipeline_id)}/updates/{_part(update_id)}/source"
        try:
            answer = self._http.get(path)
            return {str(f["path"]): base64.b64decode(f["content"], validate=True) for f in answer["files"]}
        except NotFound:
            return None
        except (binascii.Error, ValueError, TypeError, KeyError) as error:
            raise ApiError(f"The source of update {update_id} came in a form that cannot be read.") from error

    # Jobs: what starts a pipeline without a person. A server without them raises NotFound.

    def list_jobs(self) -> list[dict[str, Any]]:
        """Every job with its tasks: `job_id`, `settings` (`name`, `schedule` | `trigger` | `continuous`, `tasks`)."""
        return list(
            self._pages(
                f"{JOBS}/list",
                "jobs",
                {"expand_tasks": "true"},
                page=100,
                limit=None,
                size="limit",
                all_pages=True,
            )
        )

    def some_jobs(self) -> dict[str, Any]:
        """The first page of jobs, as short as it can be: may they be listed at all?"""
        return self._http.get(f"{JOBS}/list", {"limit": 1})

    def get_job(self, job_id: int) -> dict[str, Any]:
        """One job as `list_jobs` gives it. Raises NotFound."""
        return self._http.get(f"{JOBS}/get", {"job_id": job_id})

    def update_job(self, job_id: int, new_settings: Mapping[str, Any]) -> None:
        """Replace the given top-level settings, leave the others."""
        self._http.act("POST", f"{JOBS}/update", {"job_id": job_id, "new_settings": dict(new_settings)})

    def active_runs(self, job_id: int) -> list[dict[str, Any]]:
        """Runs of a job that are queued, run or wait for a retry."""
        first = {"job_id": job_id, "active_only": "true"}
        return list(
            self._pages(f"{JOBS}/runs/list", "runs", first, page=25, limit=None, size="limit", all_pages=True)
        )

    # Helpers

    def _pages(
        self,
        path: str,
        field: str,
        first: Mapping[str, Any],
        *,
        page: int,
        limit: int | None,
        size: str = "max_results",
        all_pages: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """Items of a paged list. A page may be short or empty; only a missing token ends the list.

        From page 2 on only the token and the size are sent: the Pipelines API refuses them beside a filter, while
        the Jobs API (`all_pages`) wants every page to be asked for in the same way.
        """
        params: dict[str, Any] = {**first, size: page}
        given = 0
        for _ in range(PAGES):
            answer = self._http.get(path, params)
            for item in answer.get(field) or []:
                if limit is not None and given >= limit:
                    return
                given += 1
                yield item
            token = answer.get("next_page_token")
            if not token or (limit is not None and given >= limit):
                return
            params = {**(first if all_pages else {}), "page_token": token, size: page}
        raise ApiError(f"The Pipelines API answers {path} without end.")

    def _id(self, answer: Mapping[str, Any], field: str, act: str) -> str:
        identifier = answer.get(field)
        if not isinstance(identifier, str) or not identifier:
            raise OutcomeUnknown(
                f"The Pipelines API accepted the {act} but did not say its {field}: it may have happened. "
                "Look at the pipeline before you repeat it."
            )
        return identifier


def _part(text: str) -> str:
    """An id as one part of a path. Raises NotFound for what cannot be one."""
    if not text or len(text) > 200 or not all(c.isalnum() or c in "-_." for c in text) or set(text) == {"."}:
        raise NotFound(f"{text[:60]!r} is not an id of the Pipelines API.")
    return text
