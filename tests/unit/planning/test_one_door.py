"""The same change by command, API and page: the same choices are stored, the same plan is sealed, the same acts are in
the audit log, and what one of them refuses the others refuse."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from console.pages import source
from recovery.contracts.choices import ValidationAnswer
from recovery.errors import Unreachable
from recovery.management.commands import _acting
from recovery.models import AuditEntry, Flow, Person, Pipeline, Plan, Recovery, Workspace
from recovery.people.roles import Actor, Role
from recovery.planning import plan_now
from recovery.sinks.earlier import EarlierTable
from recovery.strategies.base import ReplayFacts
from recovery.workflow import broker, by_hand, sealing, selectors, studies, tasks
from tests.factories.plans import plan_contents
from tests.pages import refusal
from tests.unit.people.run import run_json, token_of
from tests.unit.strategies.facts import WITHOUT, facts
from tests.unit.workflow.rows import flow, recovery
from tests.unit.workflow.test_positioning import found

pytestmark = pytest.mark.django_db
PATH = "/p/q.py"
EDITED = WITHOUT + "# seen\n"
CODE = {PATH: WITHOUT}


@dataclass(frozen=True)
class Case:
    """One change in the words of each caller."""

    command: tuple[str, ...] = ()
    """Options of `plan`."""
    api: Mapping[str, Any] = field(default_factory=dict)
    """Body of `POST …/plan`."""
    page: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """(page, fields) of each form, before the plan is asked for."""
    look: tuple[str, ...] = ()
    """The form of source 0 that is looked up before."""
    held: Mapping[str, Any] = field(default_factory=lambda: {"strategy": "continue", "key": ["id"]})
    """What was chosen before."""
    stored: Mapping[str, Any] | None = None
    """What is chosen then."""
    acts: tuple[str, ...] = ()
    """Codes of the audit log before the plan is sealed."""
    refused: str | None = None
    """Code of the refusal; None: a plan is sealed."""


@dataclass(frozen=True)
class Outcome:
    """What a caller leaves behind."""

    refused: str | None
    choices: dict[str, Any]
    plan_hash: str | None
    acts: list[Any]


HELD = {"strategy": "continue", "key": ["id"], "patch": {PATH: EDITED}, "meant": "unknown", "below": "left"}
CASES = {
    "nothing is named": Case(held=HELD, stored=HELD),
    "strategy and key": Case(
        command=("--strategy", "revert", "--key", "id, zip"),
        api={"strategy": "revert", "key": ["id", "zip"]},
        page=(("offset", {"strategy": "revert", "key": "id, zip"}),),
        held=HELD,
        stored={"strategy": "revert", "key": ["id", "zip"], "meant": "unknown", "below": "left"},
        acts=("recovery.strategy.done",),
    ),
    "no strategy was chosen": Case(
        page=(("offset", {"strategy": "continue"}),),
        held={},
        stored={"strategy": "continue", "key": []},
        acts=("recovery.strategy.done",),
    ),
    "no strategy was chosen and the change was a mistake": Case(
        page=(("offset", {"strategy": "revert"}),),
        held={"meant": "no"},
        stored={"meant": "no", "strategy": "revert", "key": []},
        acts=("recovery.strategy.done",),
    ),
    "whether it was meant": Case(
        command=("--meant", "no"),
        api={"meant": "no"},
        page=(("diagnose", {"meant": "no"}),),
        stored={"strategy": "continue", "key": ["id"], "meant": "no", "meant_by": "ada"},
        acts=("recovery.meant.done",),
    ),
    "what a replay goes back to": Case(
        command=("--strategy", "replay", "--to", "batch=1"),
        api={"strategy": "replay", "to": "batch=1"},
        page=(("offset", {"strategy": "replay", "to": "batch=1"}),),
        held={"strategy": "continue", "key": []},
        stored={"strategy": "replay", "key": [], "target": {"batch": 1}},
        acts=("recovery.strategy.done", "recovery.target.done"),
    ),
    "edited code": Case(
        command=("--code", "edited"),
        api={"patch": {PATH: EDITED}},
        page=(("patch", {"act": "keep", "path.0": PATH, "text.0": EDITED}),),
        stored={"strategy": "continue", "key": ["id"], "patch": {PATH: EDITED}},
        acts=("recovery.patch.done",),
    ),
    "the workspace's code": Case(
        command=("--keep-code",),
        api={"patch": {}},
        page=(("patch", {"act": "keep", "path.0": PATH, "text.0": WITHOUT}),),
        held=HELD,
        stored={**HELD, "patch": {}},
        acts=("recovery.keep.done",),
    ),
    "sources": Case(
        command=("--confirm", "1->0", "--confirm", "0->"),
        api={"confirm": ["1->0", "0->"]},
        page=(("positions", {"act": "confirm", "confirm": ["1->0", "0->"]}),),
        stored={"strategy": "continue", "key": ["id"], "confirmed": ["0->", "1->0"]},
        acts=("recovery.sources.done",),
    ),
    "below": Case(
        command=("--no-refresh-below",),
        api={"refresh_below": False},
        page=(("review", {"act": "no-below"}),),
        stored={"strategy": "continue", "key": ["id"], "below": "left"},
        acts=("recovery.below.done",),
    ),
    "below again": Case(
        command=("--refresh-below",),
        api={"refresh_below": True},
        page=(("review", {"act": "below"}),),
        held={"strategy": "continue", "key": [], "below": "left"},
        stored={"strategy": "continue", "key": []},
        acts=("recovery.below.done",),
    ),
    "positions": Case(
        command=("--position", "0=earliest", "--accept-repeats"),
        api={"position": ["0=earliest"], "accept_repeats": True},
        page=(("positions", {"act": "choose", "accept": ["repeats"]}),),
        look=("earliest",),
        stored={"strategy": "continue", "key": ["id"], "positions": {"0": {"earliest": True}}},
        acts=("recovery.positions.done",),
    ),
    "as committed": Case(
        command=(),
        api={},
        page=(("positions", {"act": "committed"}),),
        held={"strategy": "continue", "key": ["id"], "positions": {"0": {"latest": True}}},
        stored={"strategy": "continue", "key": ["id"], "positions": {}},
        acts=("recovery.positions.done",),
    ),
    "the same again": Case(
        command=("--strategy", "continue", "--key", "id", "--meant", "unknown", "--no-refresh-below"),
        api={"strategy": "continue", "key": ["id"], "meant": "unknown", "refresh_below": False},
        page=(
            ("diagnose", {"meant": "unknown"}),
            ("offset", {"strategy": "continue", "key": "id"}),
            ("review", {"act": "no-below"}),
        ),
        held=HELD,
        stored=HELD,
    ),
    "code that does not parse": Case(
        command=("--code", "broken"),
        api={"patch": {PATH: "def ("}},
        page=(("patch", {"act": "keep", "path.0": PATH, "text.0": "def ("}),),
        acts=("recovery.patch.failed",),
        refused="does_not_parse",
    ),
    "a pair that no one proposed": Case(
        command=("--confirm", "0"),
        api={"confirm": ["0"]},
        page=(("positions", {"act": "confirm", "confirm": ["0"]}),),
        acts=("recovery.sources.failed",),
        refused="no_pair",
    ),
    "positions that leave rows out": Case(
        command=("--position", "0=latest"),
        api={"position": ["0=latest"]},
        page=(("positions", {"act": "choose"}),),
        look=("latest",),
        acts=("recovery.positions.failed",),
        refused="loses_rows",
    ),
}


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A workspace that is not asked, a source that is, and a worker that is called by the test."""
    client = SimpleNamespace(get_pipeline=lambda pipeline_id: {"spec": {"root_path": "/p"}})
    for room in (by_hand, selectors):
        monkeypatch.setattr(room, "client_for", lambda workspace: client)
        monkeypatch.setattr(room, "read_code", lambda client, spec: ((PATH,), dict(CODE)))
    for name, text in (("edited", EDITED), ("broken", "def (")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "q.py").write_text(text)
    monkeypatch.chdir(tmp_path)

    def unread(flow: Any) -> Any:
        raise Unreachable("It is not read in this test.")

    monkeypatch.setattr(source, "read_source", unread)
    monkeypatch.setattr(_acting, "find_fresh", lambda text, by: Pipeline.objects.get())
    monkeypatch.setattr(studies, "read_positions", found)
    monkeypatch.setattr(sealing, "gather", gathered)
    monkeypatch.setattr(sealing, "validate", lambda flow, patch: ValidationAnswer(status="valid"))
    monkeypatch.setattr(broker, "check", lambda: None)
    for task in (tasks.look_positions, tasks.seal_plan):
        monkeypatch.setattr(task, "delay", lambda *given: None)


BACK = ReplayFacts(
    batch=1,
    committed=2,
    table=EarlierTable("files", 1, 1, 2, kept_rows=5, rows=12),
    reread_files=("file:///in/changes-0003.json",),
    reread_rows=7,
)


def gathered(flow: Any, *, patch: Mapping[str, str], key: tuple[str, ...], **given: Any) -> Any:
    """The facts of the customers incident, with the code and the key that were chosen."""
    known = facts()
    known = replace(
        known, counts=replace(known.counts, fresh_waiting=8)
    )  # nothing is written twice by any key
    new = replace(known.new_code, files={**CODE, **patch}, key=key)
    if given.get("target") is not None:
        known = replace(known, back=BACK)
    snapshot = SimpleNamespace(
        code=dict(CODE),
        checkpoint_place="/ck",
        table_place="/w",
        sink=known.sink,
        others={},
        preconditions=lambda: plan_contents().preconditions,
    )
    return snapshot, replace(known, new_code=new)


@dataclass
class Callers:
    """Each makes the change and has a plan sealed; it returns the code of a refusal."""

    monkeypatch: pytest.MonkeyPatch
    of: Recovery
    token: str

    def command(self, case: Case) -> str | None:
        return self._run(self.of.label, case)

    def command_by_pipeline(self, case: Case) -> str | None:
        return self._run(self.of.flow.pipeline.name, case)

    def _run(self, named: str, case: Case) -> str | None:
        code, answer = run_json(self.monkeypatch, self.token, "plan", named, *case.command)
        return answer["error"]["code"] if code else None

    def api(self, case: Case) -> str | None:
        if case.look:
            self._call("positions", {"position": case.api["position"]})
            self._work("positions_look", studies.look_positions)
        if refused := self._call("plan", case.api):
            return refused
        self._work("sealing", studies.seal_plan)
        return None

    def _call(self, path: str, body: Mapping[str, Any]) -> str | None:
        answer = Client().post(
            f"/api/v1/recoveries/{self.of.label}/{path}",
            json.dumps(dict(body)),
            content_type="application/json",
            headers={"Authorization": f"Bearer {self.token}"},
        )
        return None if answer.status_code < 300 else answer.json()["error"]["code"]

    def page(self, case: Case) -> str | None:
        client = Client()
        client.force_login(Person.objects.get(user__username="ada").user)
        ticket = self._look_on_page(client, *case.look) if case.look else ""
        for page, given in (*case.page, ("review", {})):
            answer = client.post(f"/recoveries/{self.of.pk}/{page}", {**given, "ticket": ticket})
            if answer.status_code != 302:
                return refusal(answer)
        self._work("sealing", studies.seal_plan)
        return None

    def _look_on_page(self, client: Client, form: str) -> str:
        for given in ({}, {"form.0": form}):
            client.post(f"/recoveries/{self.of.pk}/positions", {"act": "look", **given})
            ticket = self._work("positions_look", studies.look_positions)
        return ticket

    def _work(self, slot: str, work: Callable[[int, str], None]) -> str:
        """As a worker answers."""
        self.of.refresh_from_db()
        ticket: str = self.of.choices[slot]["ticket"]
        work(self.of.pk, ticket)
        return ticket


CALLERS = ("command", "command_by_pipeline", "api", "page")


def observe(of: Recovery, since: int, refused: str | None) -> Outcome:
    of.refresh_from_db()
    plan = Plan.objects.filter(recovery=of, voided_at=None).first()
    entries = AuditEntry.objects.filter(seq__gt=since, recovery=of.label).order_by("seq")
    entries = entries.exclude(
        action="recovery.look"
    )  # pages and programs ask for a look, a command just looks
    return Outcome(
        refused,
        {
            name: value
            for name, value in of.choices.items()
            if name not in ("sealing", "positions_look", "editors")
        },
        plan.hash if plan else None,
        [(e.code, e.actor, e.role, e.target, e.says, e.before, e.after) for e in entries],
    )


@pytest.mark.parametrize("name", CASES)
def test_the_same_change_leaves_the_same_choices_plan_and_audit_entries(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    case, token = CASES[name], token_of("ada", Role.RESPONDER)
    of = recovery("diagnosing", choices=dict(case.held))
    since = AuditEntry.objects.order_by("-seq").values_list("seq", flat=True)[0]
    outcomes = {}
    for caller in CALLERS:
        begun = transaction.savepoint()
        refused = getattr(Callers(monkeypatch, of, token), caller)(case)
        outcomes[caller] = observe(of, since, refused)
        transaction.savepoint_rollback(begun)
        of.refresh_from_db()

    first = outcomes["command"]
    assert first.refused == case.refused
    assert first.choices == (case.held if case.stored is None else case.stored)
    sealed = ("plan.seal.done",) if case.refused is None else ()
    assert tuple(code for code, *_ in first.acts) == (*case.acts, *sealed)
    assert (first.plan_hash is None) == (case.refused is not None)
    assert outcomes == dict.fromkeys(CALLERS, first)


def test_a_stream_that_runs_is_refused_before_anything_is_counted_or_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of = flow("running")
    Workspace.objects.filter(pk=of.pipeline.workspace_id).update(kind="streams")
    monkeypatch.setattr(_acting, "flow_of", lambda options, by: Flow.objects.get(pk=of.pk))
    monkeypatch.setattr(plan_now, "_require_storage", lambda flow, by: None)
    monkeypatch.setattr(by_hand, "is_running", lambda flow: True)
    token = token_of("rita", Role.RESPONDER)
    more = ("--strategy", "continue", "--position", "0=earliest")
    code, told = run_json(monkeypatch, token, "plan", of.pipeline.pipeline_id, *more)
    assert (code, told["error"]["code"], Recovery.objects.count()) == (1, "stream_runs", 0)


def test_a_stream_that_recover_has_stopped_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flow that the command holds is as it was before the stop."""
    of = flow("running")
    Workspace.objects.filter(pk=of.pipeline.workspace_id).update(kind="streams")
    stale = Flow.objects.get(pk=of.pk)
    monkeypatch.setattr(plan_now, "_require_storage", lambda flow, by: None)
    monkeypatch.setattr(by_hand, "is_running", lambda flow: False)
    plan_now._require_plannable(stale, "continue", Actor("rita", Role.RESPONDER))
