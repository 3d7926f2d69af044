"""Every situation a page can show, as rows of a database of its own: `python -m tests.browser.situations`.

Reads REPRISE_HOME, migrates, makes the rows and prints `{name: address}`. The server that is started
over the same home then shows them; nothing of Spark or the Pipelines API runs.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import django

from tests.browser.stream_situations import make_streams


def addresses() -> dict[str, str]:
    from django.contrib.auth.hashers import make_password
    from django.contrib.auth.models import User

    from recovery.audit.actions import append_entry
    from recovery.models import Channel, Pipeline
    from recovery.people.roles import Actor, Role
    from tests import factories as f
    from tests.factories import positions as at

    for role in ("viewer", "responder", "approver", "auditor", "admin"):
        f.person(role)
    for name in ("approver-1", "approver-2", "approver-3"):
        f.person("approver", name)
    User.objects.update(password=make_password(f.PASSWORD))
    failed = f.incident()
    seen = _with_api()
    above = f.count_below(f.right_above(f.failed_flow(f.pipeline(f.workspace(), "sales"))))
    uncounted = f.right_above(f.failed_flow(f.pipeline(f.workspace("lab-eu"), "returns")))
    same = {"state": "unknown", "condition": "QUERY_ID_SHARED", "query_id": "91ee04c7"}
    shared = f.flow(f.pipeline(f.workspace(), "eu"), "orders_eu_flow", **same)
    f.flow(f.pipeline(f.workspace(), "us"), "orders_us_flow", **same)
    long = _with_versions().pk
    main = f.pipeline(f.workspace("main-eu", environment="production"), "orders", environment="production")
    standing = f.flow(main, "orders_flow", history=["ok", "failed", "ok", "ok", "stopped"], state="stopped")
    production = f.failed_flow(main, name="spark_catalog.crm.orders_enriched_flow")
    _unread(standing, f.flow(main, "returns_flow", state="stopped"))
    Pipeline.objects.filter(pk=main.pk).update(wanted_environment="development", wanted_since=f.ago(hours=2))
    f.flow(main, "shipments_flow", state="running", history=["ok", "ok", "ok", "ok", "running"])

    def of(make: Callable[..., object], strategy: str = "") -> int:
        made = make(f.failed_flow(f.pipeline(f.workspace(), "customers")), *([strategy] if strategy else []))
        return int(made.pk)  # type: ignore[attr-defined]

    def of_place(make: Callable[..., Any], environment: str = "production") -> Any:
        place = f.workspace("main-eu", environment="production")
        return make(f.failed_flow(f.pipeline(place, "customers", environment=environment)))

    def request_of(make: Callable[..., Any]) -> str:
        return f"/approvals/{of_place(make).requests.get().pk}"

    valid = {
        "status": "valid",
        "says": "validate_only: the graph is valid.",
        "at": f.ago(seconds=9).isoformat(),
    }
    continued = f.at_patch(_with_api(), choices=f.choices(validation=valid))
    reverted = f.at_patch(_with_api(), "revert")
    recoveries = {
        "diagnose": ("diagnose", of(f.opened)),
        "stop-before": ("stop", of(f.opened)),
        "offset-none": ("offset", of(lambda flow: f.at_offset(flow, facts={"status": "none"}))),
        "offset-working": ("offset", of(lambda flow: f.at_offset(flow, facts=f.facts("working")))),
        "offset-failed": (
            "offset",
            of(
                lambda flow: f.at_offset(
                    flow,
                    facts=f.facts("failed", problem="Spark does not answer. Start it, then count again."),
                )
            ),
        ),
        "offset": ("offset", of(f.at_offset)),
        "offset-recommended": ("offset", of(lambda flow: f.at_offset(flow, choices={"meant": "yes"}))),
        "positions-none": ("positions", of(at.at_positions)),
        "positions-working": ("positions", of(at.look_working)),
        "positions-failed": ("positions", of(at.look_failed)),
        "positions": ("positions", of(at.at_committed)),
        "positions-time": ("positions", of(at.at_a_time)),
        "positions-chosen": ("positions", of(at.at_earliest_chosen)),
        "positions-part": ("positions", of(at.with_a_part)),
        "positions-many": ("positions", of(at.with_many)),
        "positions-sources": ("positions", of(at.other_sources)),
        "stop-done": ("stop", of(f.with_jobs)),
        "patch-away": ("patch", of(f.at_patch)),
        "review-none": ("review", of(f.at_review)),
        "review": ("review", of(f.planned)),
        "review-accept": ("review", of(f.to_accept)),
        "review-accepted": ("review", of(f.losing)),
        "review-revert": ("review", of(f.planned, "revert")),
        "confirm": ("run/confirm", of(f.planned, "full-refresh")),
        "void": ("review", of(f.void)),
        "run": ("run", of(f.running)),
        "run-unknown": ("run", of(f.unknown)),
        "run-failed": ("run", of(f.failed_step)),
        "rollback": ("rollback", of(f.failed_step)),
        "cancel": ("cancel", of(f.at_offset)),
        "run-paused": ("run", of(f.paused)),
        "skip": ("skip", of(f.not_proven)),
        "skip-never": ("skip", of(f.failed_step)),
        "owner": ("owner", of(lambda flow: f.opened(flow, owner="admin"))),
        "owner-take": ("owner", of(f.running)),
        "unproven": ("verify", of(f.unproven)),
        "verify": ("verify", of(f.verified)),
        "verify-failed": ("verify", of(f.not_proven)),
        "verify-missing": ("verify", of(f.rows_missing)),
        "verify-repeats": ("verify", of(f.rows_repeated)),
        "verify-repeated": ("verify", of(f.repeated)),
        "report-history": ("report", of(f.reported)),
        "review-below": ("review", of(f.review_below)),
        "verify-below": ("verify", of(f.verified_below)),
        "rolled-back": ("run", of(f.rolled_back)),
        "cancelled": ("diagnose", of(f.cancelled)),
        "review-ask": ("review", of_place(f.planned).pk),
        "review-waiting": ("review", of_place(f.voted).pk),
        "review-approved": ("review", of_place(f.approved).pk),
        "review-rejected": ("review", of_place(f.rejected).pk),
        "review-expired": ("review", of_place(f.expired).pk),
        "confirm-production": ("run/confirm", of_place(f.approved).pk),
        "break-glass": ("break-glass", of_place(f.planned, "staging").pk),
        "break-glass-none": ("break-glass", of_place(f.planned).pk),
        "run-glass": ("run", of_place(f.glass, "staging").pk),
    }
    together = _run_together(Actor("responder", Role.RESPONDER, via="page"))
    f.channels()
    channel = Channel.objects.get(kind="webhook").pk
    by = Actor("responder", Role.RESPONDER, via="page", request_id="req-00112233")
    append_entry(action="recovery.strategy", outcome="done", by=by, target_kind="flow", target=failed.name,
           recovery="R-1", says="Strategy continue chosen.", before={"strategy": None, "key": None},
           after={"strategy": "continue", "key": []})  # fmt: skip
    append_entry(action="recovery.execute", outcome="denied", by=Actor("viewer", Role.VIEWER, via="page"),
           recovery="R-1", target_kind="flow", target=failed.name, says="viewer may not run recoveries.")  # fmt: skip
    audited = _audited(by)
    return {
        **_people(),
        "inventory": "/",
        "inventory-all": "/?show=all",
        "inventory-at-risk": "/?show=at-risk&sort=until",
        "inventory-none-fits": "/?show=all&q=nothing-like-this",
        "flow": f"/flows/{failed.pk}",
        "flow-production": f"/flows/{production.pk}",
        "flow-shared-id": f"/flows/{shared.pk}",
        "flow-unread": f"/flows/{standing.pk}",
        "flow-batches": f"/flows/{seen.pk}",
        "flow-below": f"/flows/{above.pk}",
        "flow-below-uncounted": f"/flows/{uncounted.pk}",
        "flow-empty": f"/flows/{above.pipeline.flows.get(streaming=False).pk}",
        "checkpoint-away": f"/flows/{failed.pk}/checkpoint",
        "events-away": f"/flows/{failed.pk}/events",
        "code-away": f"/flows/{failed.pk}/code",
        "checkpoint": f"/flows/{seen.pk}/checkpoint",
        "checkpoint-batch": f"/flows/{seen.pk}/checkpoint?batch=3",
        "checkpoint-beside": f"/flows/{seen.pk}/checkpoint?batch=1&beside=3",
        "checkpoint-no-batch": f"/flows/{seen.pk}/checkpoint?batch=77",
        "checkpoint-long": f"/flows/{long}/checkpoint",
        "checkpoint-old": f"/flows/{long}/checkpoint?version=0",
        "checkpoint-files": f"/flows/{long}/checkpoint?files=0&page=2",
        "checkpoint-kafka": f"/flows/{long}/checkpoint?batch=25&beside=26",
        "checkpoint-damaged": f"/flows/{long}/checkpoint?batch=27",
        "events": f"/flows/{seen.pk}/events",
        "code": f"/flows/{seen.pk}/code",
        "patch": f"/recoveries/{continued.pk}/patch",
        "patch-revert": f"/recoveries/{reverted.pk}/patch",
        "flow-recoveries": f"/flows/{failed.pk}/recoveries",
        **{name: f"/recoveries/{pk}/{page}" for name, (page, pk) in recoveries.items()},
        "approval": request_of(f.voted),
        "approval-revert": request_of(lambda flow: f.asked(flow, "revert")),
        "approval-approved": request_of(f.approved),
        "approval-rejected": request_of(f.rejected),
        "approval-void": request_of(f.voided),
        "approval-expired": request_of(f.expired),
        "approvals": "/approvals",
        "reauthenticate": "/reauthenticate?next=/approvals",
        "environments": "/settings/environments",
        "environment-production": "/settings/environments/production",
        "environment-staging": "/settings/environments/staging",
        "recoveries": "/recoveries",
        "audit": "/audit",
        "audit-entry": "/audit/1",
        **audited,
        "audit-chain": "/audit/chain",
        "forgotten": "/forgotten",
        "settings": "/settings",
        **_doors(of(f.verified), of(f.unknown)),
        "notifications": "/settings/notifications",
        "channel-new": "/settings/notifications/new",
        "channel": f"/settings/notifications/{channel}",
        "components": "/_components",
        "error-text": "/diagnose",
        **make_streams(),
        **_doubted(),
        **together,
        "account": "/account",
        "missing": "/no-such-page",
        "denied": "/audit/export?format=csv&as=viewer",
    }


def _doors(proven: int, unknown: int) -> dict[str, str]:
    """Workspaces with the answers of their tests, search, a report, and what somebody knows of an unknown step."""
    from recovery.models import Workspace
    from recovery.pipelines.workspace_answers import (
        AnswerResult,
        LackOf,
        Question,
        WorkspaceAnswer,
        WorkspaceLack,
        WorkspaceTest,
    )
    from tests import factories as f

    lacks = (
        WorkspaceLack(LackOf.CHECKPOINTS, ("loyalty",), "Access Denied"),
        WorkspaceLack(LackOf.STORAGE, ("orders", "customers")),
    )
    answers = (
        WorkspaceAnswer(
            Question.ANSWERS,
            AnswerResult.HOLDS,
            milliseconds=84,
            certificate_until="2027-03-02T00:00:00+00:00",
        ),
        WorkspaceAnswer(Question.TOKEN, AnswerResult.HOLDS, account="svc-reprise-stage"),
        WorkspaceAnswer(Question.READ, AnswerResult.HOLDS, pipelines=31, tried=20, held=20),
        WorkspaceAnswer(Question.ACT, AnswerResult.UNKNOWN, (WorkspaceLack(LackOf.ACCOUNT),)),
        WorkspaceAnswer(Question.CHECKPOINTS, AnswerResult.PART, lacks, tried=20, held=17, new=1),
        WorkspaceAnswer(Question.SPARK, AnswerResult.FAILS, (WorkspaceLack(LackOf.QUESTIONS),)),
    )
    test = WorkspaceTest(f.ago(minutes=12).isoformat(), 3.4, answers)
    Workspace.objects.filter(name="main-eu").update(tested=test.as_dict())
    return {
        "workspace-new": "/settings/workspaces/new",
        "workspace": "/settings/workspaces/main-eu",
        "search": "/search?q=customers",
        "search-nothing": "/search?q=nothing-like-this",
        "report": f"/recoveries/{proven}/report",
        "statement": f"/recoveries/{unknown}/run/statement",
    }


def _on_the_way_together() -> dict[str, str]:
    """Failed flows of one pipeline: before any is opened, while they are decided, and once all are sealed."""
    from recovery.models import Flow
    from tests import factories as f
    from tests.factories import joint as j
    from tests.factories import together as t

    def some(name: str) -> list[Flow]:
        return t.broken_flows(3, f.failed_flow(f.pipeline(f.workspace(), name)))

    failed, asked, decided = some("billing"), some("invoices"), some("payments")
    first, *_ = [t.open_for(flow) for flow in asked]
    t.stop_early(first)
    says = "The plan loses 2 rows, and that is not accepted."
    sealing = {"status": "failed", "problem": says, "code": "loses_rows"}
    t.stop_early(t.open_for(decided[0], meant="yes"))
    t.open_for(decided[1], meant="yes", strategy="continue", sealing=sealing)
    t.open_for(decided[2], counted=False)
    sealed = j.planned_flows(count=3)
    Flow.objects.filter(pk__in=[row.flow_id for row in sealed]).update(streaming=True)
    return {
        "pipeline-broken": f"/pipelines/{failed[0].pipeline_id}",
        "flow-broken": f"/flows/{failed[0].pk}",
        "together-open": f"/pipelines/{failed[0].pipeline_id}/together",
        "together-asked": f"/pipelines/{asked[0].pipeline_id}/together",
        "together-decide": f"/pipelines/{decided[0].pipeline_id}/together?flow={decided[0].pk}&flow={decided[1].pk}",
        "together-sealed": f"/pipelines/{sealed[0].flow.pipeline_id}/together",
    }


def _run_together(by: Any) -> dict[str, str]:
    """Plans that may be sealed together; plans that are, before, while and after they run; the vote on such plans."""
    from recovery.approvals.joint_actions import request_joint_approval
    from recovery.models import Recovery
    from tests.factories import joint as j

    waiting = j.planned_flows()
    _, sealed = j.joined(by=by)
    joint, members = j.joined(by=by, environment="staging")
    requests = request_joint_approval(joint_id=joint.pk, reason="ticket 17", by=by)
    _, emptying = j.joined_emptying()
    _, running = j.joined(by=by)
    _, stuck = j.joined(by=by)
    for rows, state, seed in ((running, "running", "running"), (stuck, "needs_attention", "failed")):
        for row in rows:
            row.steps.filter(kind__in=("stop", "backup", "patch")).update(state="done")
            Recovery.objects.filter(pk=row.pk).update(state=state)
        rows[0].steps.filter(kind="seed").update(state=seed)
    return {
        **_on_the_way_together(),
        "run-joint": f"/recoveries/{running[0].pk}/run",
        "rollback-joint": f"/recoveries/{stuck[0].pk}/rollback",
        "cancel-joint": f"/recoveries/{sealed[1].pk}/cancel",
        "review-join": f"/recoveries/{waiting[0].pk}/review",
        "review-joint": f"/recoveries/{sealed[0].pk}/review",
        "review-emptying": f"/recoveries/{emptying[0].pk}/review",
        "confirm-emptying": f"/recoveries/{emptying[0].pk}/run/confirm",
        "confirm-joint": f"/recoveries/{sealed[0].pk}/run/confirm",
        "glass-joint": f"/recoveries/{members[0].pk}/break-glass",
        "approval-joint": f"/approvals/{requests[0].pk}",
    }


def _audited(by: Any) -> dict[str, str]:
    """Acts in production: one that waits for its review, one that was signed off; a story; two checks."""
    from django.utils import timezone

    from recovery.audit import log_operations, reviews
    from recovery.audit.actions import append_entry
    from recovery.models import AskedCheck
    from recovery.people.roles import SYSTEM, Actor, Role
    from tests import factories as f

    done = f.verified(f.failed_flow(f.pipeline(f.workspace("main-eu"), "payments", environment="production")))
    acts = [
        append_entry(action="recovery.execute", outcome="done", by=by, recovery=done.label, target_kind="flow",
               target=done.flow.name, says=f"Started plan 4f9a1c03 of {done.label}.", reason="Ticket CRM-881: " + why,
               before={"state": "planned", "version": 0, "next_batch": 3, "code": f.OLD_CODE},
               after={"state": "running", "version": 1, "next_batch": 3, "code": f.CODE})
        for why in ("dropDuplicates was removed on purpose.", "run again, the probe proved that nothing ran.")
    ]  # fmt: skip
    append_entry(action="step.run", outcome="done", by=SYSTEM, recovery=done.label, target_kind="step",
           target="seed #7, attempt 1", says="Step seed is done.", after={"version": 1})  # fmt: skip
    reviews.sign_off(
        seq=acts[0].seq, note="Plan, rehearsal and proof agree.", by=Actor("auditor", Role.AUDITOR)
    )
    log_operations.sign_chain()
    log_operations.verify_chain(by=Actor("auditor", Role.AUDITOR))
    now = timezone.now()
    AskedCheck.objects.create(number=1, by="auditor", at=now, alive_at=now, read=412_000, total=1_204_310)
    return {
        "audit-review": "/audit/review",
        "audit-signed-off": "/audit/review?show=signed",
        "audit-to-review": f"/audit/{acts[1].seq}",
        "audit-story": f"/audit/recovery/{done.label}",
        "audit-filtered": f"/audit?recovery={done.label}&who=responder",
        "audit-none-fits": "/audit?q=nothing-like-this",
    }


def _people() -> dict[str, str]:
    """Somebody with roles by environment and an invitation, and a service account with tokens."""
    from django.contrib.auth.models import User

    from recovery.models import Person
    from recovery.people import actions
    from recovery.people.identity import actor_for_user
    from recovery.people.roles import Grant, Right, Role

    boss = actor_for_user(User.objects.get(username="admin"), via="page")
    ada = actions.create_person(
        name="ada.lovelace", role="none", password=None, invited=True, email="ada@corp.example", by=boss
    )
    places = {"staging": Grant(Role.RESPONDER), "production": Grant(Role.RESPONDER, reset=False)}
    actions.change_person(person=ada, role="viewer", elsewhere=places, by=boss)
    secret = actions.invite_person(person=ada, by=boss)
    bot = actions.create_person(name="svc-deploy", role="responder", password=None, service=True, by=boss)
    actions.create_token(owner=bot.user, name="nightly", days=30, rights=[Right.VIEW, Right.RECOVER],
                         environments=["staging"], by=boss)  # fmt: skip
    actions.switch_account(person=Person.objects.get(user__username="auditor"), on=False, by=boss)
    return {
        "password": "/account/password",
        "totp": "/account/authenticator-app",
        "passkey-away": "/account/passkey",
        "people": "/settings/people",
        "person": f"/settings/people/{ada.pk}",
        "person-service": f"/settings/people/{bot.pk}",
        "invitation": f"/invitation/{secret}",
        "invitation-used": "/invitation/not-good",
    }


def _unread(standing: Any, lost: Any) -> None:
    """A stopped flow whose input goes in five hours; one of which some is gone, and of which nobody knows all."""
    from tests import factories as f

    gone = {
        "until": None, "readable": False, "stands_since": f.ago(days=8),
        "why": "2 data files that are still to be read were deleted, as VACUUM does after a table's rows were "
        "rewritten. Spark stops at the first of them; their rows are in the table as it is now, where they still live.",
        "kind": "delta", "place": "s3://main-eu-lake/warehouse/returns", "label": "version 41, file 3",
        "unread": {"rows": {"value": 18240, "exact": True, "why": ""}, "files": {"value": 6, "exact": True, "why": ""},
                   "bytes": {"value": 4_411_904, "exact": True, "why": ""}},
        "lost": {"rows": {"value": 6080, "exact": True, "why": ""}, "files": {"value": 2, "exact": True, "why": ""}},
    }  # fmt: skip
    f.source(lost, **gone)
    f.source(standing, 2, until=f.ago(hours=-5.2))
    f.source(standing, 1, **{**gone, "readable": None, "seen_at": None, "asked_at": f.ago(minutes=1), "why": "",
             "unread": {}, "lost": {}, "problem": "s3://main-eu-lake/warehouse/returns does not answer. Try again.",
             })  # fmt: skip
    f.source(standing, 0, unread={"rows": {"value": 1_204_880, "exact": False, "why": "at most: the difference of "
             "offsets; markers of transactions take offsets too"}}, until=f.ago(days=-3), why="Every record after the "
             "position is still there. Retention may take the first of them from then on.", label="shipments partition "
             "0 at 9441, shipments partition 1 at 9320", place="shipments at broker-1.corp.example:9092")  # fmt: skip


def _doubted() -> dict[str, str]:
    """Flows that are ok or run over tables with rows lost or doubled: as accepted, as a proof found them, and as their
    updates made them."""
    from recovery.models import Flow, Plan, Recovery
    from recovery.workflow.doubting import keep_table_doubts
    from tests import factories as f

    accepted = f.repeated(f.failed_flow(f.pipeline(f.workspace(), "billing")))
    plan = accepted.plans.get()
    Plan.objects.filter(pk=plan.pk).update(body={**plan.body, "sink": {**plan.body["sink"], "kind": "delta"}})
    differs = f.verified(f.failed_flow(f.pipeline(f.workspace(), "invoices")), "revert")
    plan = differs.plans.get()
    added = '@@ -3,1 +3,2 @@\n     .format("kafka")\n+    .option("startingOffsets", "latest")\n'
    patch = [{**plan.body["patch"][0], "diff": f"--- a/x\n+++ b/x\n{added}"}]
    Plan.objects.filter(pk=plan.pk).update(body={**plan.body, "patch": patch})
    whole = {**differs.measured["whole"], "absent": 3, "doubled": 5}
    rows = {
        "lost": 3,
        "lost_bound": "estimate",
        "lost_before": 3,
        "doubled": 5,
        "doubled_before": 5,
        "whole": whole,
    }
    Recovery.objects.filter(pk=differs.pk).update(measured={**differs.measured, **rows})
    well = {"state": "ok", "failing_since": None, "condition": "", "error": [], "failed_update": ""}
    Flow.objects.filter(pk__in=[accepted.flow_id, differs.flow_id]).update(**well)
    again = f.flow(f.pipeline(f.workspace(), "parcels"), state="running")
    again.sink_memory = {"read_again": {"since": f.ago(days=2).isoformat(), "update": "u-1"}}
    again.save()
    keep_table_doubts([again.pk])
    return {
        "flow-read-again": f"/flows/{again.pk}",
        "inventory-read-again": "/?show=all&q=parcels",
        "flow-accepted": f"/flows/{accepted.flow_id}",
        "verify-accepted": f"/recoveries/{accepted.pk}/verify",
        "flow-differs": f"/flows/{differs.flow_id}",
        "verify-differs": f"/recoveries/{differs.pk}/verify",
        "pipeline-doubted": f"/pipelines/{differs.flow.pipeline_id}",
        "inventory-doubted": "/?show=all&q=invoices",
        "search-doubted": "/search?q=invoices",
    }


def _with_api() -> Any:
    """A failed flow whose API answers (REPRISE_TEST_API) and whose checkpoint is on disk."""
    from recovery.models import Workspace
    from tests import factories as f
    from tests.checkpoint_builder import Built

    home = Path(os.environ["REPRISE_HOME"])
    (home / "test.token").write_text("t")
    place, _ = Workspace.objects.get_or_create(
        name="api-eu",
        defaults={
            "url": os.environ["REPRISE_TEST_API"],
            "token_ref": f"file:{home}/test.token",
            "polled_at": f.ago(seconds=4),
        },
    )
    owner = f.pipeline(place)
    storage = home / "storage" / str(owner.pk)
    owner.spec = {**owner.spec, "storage": storage.as_uri()}
    owner.save()
    flow = f.failed_flow(owner)
    Built(storage / "_checkpoints" / flow.dataset.replace(".", "/") / flow.short / "0", planned=1).write()
    return flow


def _with_versions() -> Any:
    """A flow with two checkpoint versions, a long compacted log, a Kafka source, a damaged batch."""
    from tests.checkpoint_builder import CONF, Built, dumps, put

    flow = _with_api()
    place = Path(flow.pipeline.spec["storage"].removeprefix("file://"))
    root = place / "_checkpoints" / flow.dataset.replace(".", "/") / flow.short
    Built(root / "1", batches=27, files_per_batch=11, folder="/data/landing/crm/customers/changes").write()
    for batch, offset in ((25, 123), (26, 4_567)):
        header = {"batchWatermarkMs": 1_790_000_000_000 * (batch - 25), "batchTimestampMs": 1_790_000_900_000,
                  "conf": {**CONF, "spark.sql.shuffle.partitions": str(batch)}}  # fmt: skip
        kafka = {"crm.customers.changes": {"0": offset, "1": 45 * offset}}
        put(root / "1" / "offsets" / str(batch), "\n".join(
            ["v1", dumps(header), dumps({"logOffset": batch}), dumps(kafka)]))  # fmt: skip
    put(root / "1" / "offsets" / "27", 'v1\n{"batchWatermarkMs":')
    return flow


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    call_command("collectstatic", interactive=False, verbosity=0)
    sys.stdout.write(json.dumps(addresses()) + "\n")


if __name__ == "__main__":
    main()
