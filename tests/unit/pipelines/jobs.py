"""A Jobs API 2.2 in memory, served over real HTTP, beside one pipeline whose updates a test starts and stops."""

from dataclasses import dataclass, field
from typing import Any

from tests.unit.pipelines.stub import Answer, Asked

PIPELINE = "p-0"
NIGHTLY = {"quartz_cron_expression": "0 0 3 * * ?", "timezone_id": "UTC", "pause_status": "UNPAUSED"}


def job(number: int, name: str = "nightly", pipeline: str = PIPELINE, **ways: Any) -> dict[str, Any]:
    task = {"task_key": "run", "pipeline_task": {"pipeline_id": pipeline}}
    return {"job_id": number, "settings": {"name": name, "tasks": [task], **ways}}


@dataclass
class Jobs:
    """`refuses`: paths that answer 403. `deaf`: updates of jobs are answered and not carried out."""

    jobs: dict[int, dict[str, Any]] = field(default_factory=dict)
    runs: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    active: list[str] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    page: int = 100
    has_jobs: bool = True
    refuses: set[str] = field(default_factory=set)
    deaf: bool = False
    spec: dict[str, Any] = field(default_factory=dict)
    beside: dict[str, Any] = field(default_factory=dict)
    updates: list[dict[str, Any]] = field(default_factory=list)
    modified: int = 1

    def add(self, *jobs: dict[str, Any]) -> None:
        self.jobs |= {j["job_id"]: j for j in jobs}

    def __call__(self, asked: Asked) -> Answer:
        if asked.path in self.refuses:
            return Answer(403, {"error_code": "PERMISSION_DENIED", "message": "no right to jobs"})
        if asked.path.startswith("/api/2.2/jobs") and self.has_jobs:
            return self._jobs(asked)
        if asked.path == f"/api/2.0/pipelines/{PIPELINE}":
            return self._edited(asked.body) if asked.method == "PUT" else Answer(body=self._answer())
        if asked.path == f"/api/2.0/pipelines/{PIPELINE}/updates":
            return Answer(body={"updates": self.updates})
        if asked.path == f"/api/2.0/pipelines/{PIPELINE}/stop":
            self.ended += self.active
            self.active = []
            return Answer()
        if asked.path.startswith(f"/api/2.0/pipelines/{PIPELINE}/updates/"):
            return Answer(body={"update": {"state": "CANCELED"}})
        return Answer(404, {"error_code": "ENDPOINT_NOT_FOUND", "message": f"No API at {asked.path}."})

    def _answer(self) -> dict[str, Any]:
        updates = [{"update_id": u, "state": "RUNNING"} for u in self.active]
        told = {
            "pipeline_id": PIPELINE,
            "name": "shop",
            "latest_updates": updates,
            "last_modified": self.modified,
        }
        return {**told, "spec": self.spec, **self.beside}

    def _edited(self, body: dict[str, Any]) -> Answer:
        """The trap of this call: what is not sent is gone."""
        if body.pop("expected_last_modified", self.modified) != self.modified:
            return Answer(409, {"error_code": "RESOURCE_CONFLICT", "message": "The pipeline was modified."})
        if not self.deaf:
            self.beside = {k: body.pop(k) for k in ("run_as", "parameters") if k in body}
            self.spec, self.modified = body, self.modified + 1
            if self.active and body.get("continuous"):  # an edit starts its update anew
                self.active = [f"{self.active[0]}-again"]
        return Answer()

    def _jobs(self, asked: Asked) -> Answer:
        what = asked.path.removeprefix("/api/2.2/jobs/")
        if what == "list":
            assert asked.query["expand_tasks"] == "true"
            begin = int(asked.query.get("page_token", 0))
            found = list(self.jobs.values())
            more = {"next_page_token": str(begin + self.page)} if begin + self.page < len(found) else {}
            return Answer(body={"jobs": found[begin : begin + self.page], **more})
        if what == "runs/list":
            runs = self.runs.get(int(asked.query["job_id"]), [])
            return Answer(body={"runs": runs} if runs else {})
        number = int(asked.body["job_id"] if asked.body else asked.query["job_id"])
        if number not in self.jobs:
            return Answer(
                404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": f"Job {number} does not exist."}
            )
        if what == "update" and not self.deaf:
            self.jobs[number]["settings"] |= asked.body["new_settings"]
        return Answer(body=self.jobs[number] if what == "get" else {})
