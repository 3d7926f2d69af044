"""The evidence pack of one recovery: a ZIP that can be read and checked without the console, years later.

`index.html` for people; plan, approvals, steps, verification and entries as JSON; `proof.json`, the way of the chain
from the recovery's first entry to a signed anchor (of entries in between only the hash of their contents, so that
nothing of other recoveries is shown); `verify.py`, which needs Python alone; `manifest.json` with every file's sha256,
and its signature. Pack format 1.
"""

import contextlib
import hashlib
import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

from django.apps import apps
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import BinaryField, ForeignKey, Model
from django.template import Context, Engine
from django.utils import timezone

from recovery.audit import anchoring, chain, cleansing, keys, tags
from recovery.audit.actions import audited_attempt
from recovery.audit.anchoring import SignedStatement
from recovery.audit.exporting import COLUMNS, entry_columns
from recovery.audit.log_operations import sign_chain
from recovery.contracts import codec
from recovery.contracts.evidence import ChainProof, PackedPlan, PackedRecovery, PackedVerification, PackMade
from recovery.errors import Denied, Refused, Unreachable
from recovery.models import AuditEntry, Plan, Recovery, Step
from recovery.numbers import read_recovery_number
from recovery.people import visible
from recovery.people.roles import Actor, Right

OFFLINE: Final = Path(__file__).parent / "offline"
OWN_FILES: Final = (Plan, Step)
"""Records that have a file of their own. Every other table that points at a recovery or plan is found by itself:
approvals and votes, by their names, go to approvals.json, the rest to records.json."""

_APPROVALS: Final = ("approv", "vote")


def pack_evidence(*, label: str, stream: IO[bytes], by: Actor) -> PackMade:
    """Write the ZIP into `stream`. Taking it is an entry, and in it.

    Raises Denied, NotFound.
    """
    name = f"R-{label.strip().upper().removeprefix('R-')}"
    with audited_attempt(action="audit.pack", by=by, target_kind="recovery", target=name) as trying:
        by.check(Right.EXPORT_AUDIT)
        recovery = _find_recovery(name, by)
        trying.recovery = recovery.label
        _check_sight(recovery, by)
        trying.done(f"Took the evidence of {recovery.label} along.")
    with contextlib.suppress(Refused, Unreachable):
        sign_chain()  # without it the proof leads to another signature, or says that there is none
    files = _build_files(recovery)
    manifest = {n: hashlib.sha256(content).hexdigest() for n, content in sorted(files.items())}
    files["manifest.json"] = _encode_json(manifest)
    signature = _sign_message(files["manifest.json"], json.loads(files["proof.json"])["public_key"])
    if signature:
        files["manifest.sig"] = signature.encode() + b"\n"
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path, content in files.items():
            zipped.writestr(f"reprise-{recovery.label}/{path}", content)
    return PackMade(
        recovery=recovery.label,
        entries=files["entries.jsonl"].count(b"\n"),
        signed=bool(signature),
        files=tuple(sorted(files)),
    )


def _find_recovery(name: str, by: Actor) -> Recovery:
    number = read_recovery_number(name)
    recoveries = Recovery.objects.select_related("flow__pipeline__workspace")
    recovery = recoveries.filter(pk=number).first() if number is not None else None
    visible.require_visible_flow(recovery.flow if recovery else None, by, f"There is no recovery {name}.")
    assert recovery is not None
    return recovery


def _check_sight(recovery: Recovery, by: Actor) -> None:
    """Evidence is whole or none: raise Denied for whom some of its entries are closed (the pipeline was moved from
    another environment)."""
    closed = AuditEntry.objects.filter(recovery=recovery.label).exclude(visible.filter_entries(by))
    if visible.filter_entries(by) and (other := closed.values_list("environment", flat=True).first()):
        raise Denied(
            f"Part of what was done in {recovery.label} was done in {other}, which {by.name} may not see. "
            "Ask an auditor who may.",
            code="partly_hidden",
        )


def _build_files(recovery: Recovery) -> dict[str, bytes]:
    """Every file but the manifest, by name."""
    entries = [
        entry_columns(e)
        for e in AuditEntry.objects.filter(recovery=recovery.label).order_by("seq").values(*COLUMNS)
    ]
    sealed = list(recovery.plans.select_related("joint").order_by("pk"))
    plans = [_pack_plan(p) for p in sealed]
    steps = [_describe_step(s) for s in recovery.steps.order_by("ordinal")]
    facts = _pack_recovery(recovery)
    others, proof = _list_other_rows(recovery), _build_proof(entries)
    approvals = {name: rows for name, rows in others.items() if any(word in name for word in _APPROVALS)}
    records = {name: rows for name, rows in others.items() if name not in approvals}
    criteria = sealed[-1].contents.criteria if sealed else ()
    verification = PackedVerification(measured=recovery.measured, criteria=criteria)
    worded = [{**e, "words": tags.ACTIONS.get(e["action"], "")} for e in entries]
    shown = {"facts": facts, "plans": plans, "approvals": approvals, "records": records, "steps": steps,
             "proof": proof, "measured": recovery.measured, "entries": worded}  # fmt: skip
    return {
        "index.html": _render_page(shown),
        "recovery.json": _encode_json(codec.to_json(facts)),
        "plan.json": _encode_json({"plans": [codec.to_json(plan) for plan in plans]}),
        "approvals.json": _encode_json(approvals),
        "records.json": _encode_json(records),
        "steps.json": _encode_json(steps),
        "steps.log": "\n".join(_log_lines(steps)).encode() + b"\n",
        "verification.json": _encode_json(codec.to_json(verification)),
        "entries.jsonl": b"".join(json.dumps(e, sort_keys=True).encode() + b"\n" for e in entries),
        "proof.json": _encode_json(codec.to_json(proof)),
        "verify.py": (OFFLINE / "verify.py").read_bytes(),
    }


def _pack_recovery(recovery: Recovery) -> PackedRecovery:
    pipeline = recovery.flow.pipeline
    return PackedRecovery(
        recovery=recovery.label,
        state=recovery.state,
        strategy=recovery.strategy,
        workspace=pipeline.workspace.name,
        environment=pipeline.environment,
        pipeline=pipeline.name,
        flow=recovery.flow.name,
        opened_by=recovery.created_by,
        owner=recovery.owner,
        opened_at=recovery.created_at,
        ended_at=recovery.ended_at,
        reason=cleansing.cleanse_text(recovery.reason),
        made_at=timezone.now(),
    )


def _pack_plan(plan: Plan) -> PackedPlan:
    return PackedPlan(
        hash=plan.hash,
        sealed_by=plan.sealed_by,
        sealed_at=plan.sealed_at,
        voided_at=plan.voided_at,
        drift=plan.drift,
        body=plan.body,
        joint_hash=plan.joint.hash if plan.joint else "",
        joint=plan.joint.body if plan.joint else {},
    )


def _describe_step(step: Step) -> dict[str, object]:
    """Its row as it is, without secrets: what a kind of step leaves has a type of its own."""
    names = ("ordinal", "kind", "says", "state", "attempt", "started_at", "ended_at", "worker", "problem")
    values = ("args", "result", "evidence", "log")
    described = {name: getattr(step, name) for name in names}
    cleansed: dict[str, object] = cleansing.cleanse_value({name: getattr(step, name) for name in values})
    return {
        **described,
        **cleansed,
        "problem": cleansing.cleanse_text(step.problem),
        "plan": step.plan.hash if step.plan else "",
    }


def _log_lines(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for step in steps:
        yield f"== {step['ordinal']} {step['kind']}: {step['state']}"
        yield from (f"{line[0]} {line[1]}" for line in step["log"])


def _list_other_rows(recovery: Recovery) -> dict[str, list[dict[str, object]]]:
    """Rows of every other table that points at this recovery or its plans (approvals, votes), by table."""
    rows_by_table: dict[str, list[dict[str, object]]] = {}
    for model in apps.get_app_config("recovery").get_models():
        if model in OWN_FILES:
            continue
        links = [
            f for f in model._meta.fields if isinstance(f, ForeignKey) and f.related_model in (Recovery, Plan)
        ]
        for link in links:
            key = "" if link.related_model is Recovery else "__recovery"
            rows = model._default_manager.filter(**{f"{link.name}{key}": recovery}).order_by("pk")
            rows_by_table.setdefault(model._meta.model_name or "", []).extend(_row_values(r) for r in rows)
    return {name: list({r["id"]: r for r in rows}.values()) for name, rows in rows_by_table.items() if rows}


def _row_values(row: Model) -> dict[str, object]:
    """Without the bytes of kept files: their hashes stand there, and no secret of the source leaves by this way."""
    kept = [f for f in row._meta.concrete_fields if not isinstance(f, BinaryField)]
    fields = {f.attname: getattr(row, f.attname) for f in kept}
    cleansed: dict[str, object] = cleansing.cleanse_value(fields)
    return cleansed


def _build_proof(entries: Sequence[Mapping[str, Any]]) -> ChainProof:
    """The links from the first of these entries to the first good anchor behind the last of them."""
    if not entries:
        return ChainProof(first=0, last=0, prev_hash=chain.GENESIS, links=(), anchor=None, public_key="")
    first, last = entries[0]["seq"], entries[-1]["seq"]
    anchor = anchoring.next_after(last)
    until = anchor.statement.seq if anchor else last
    between = AuditEntry.objects.filter(seq__gte=first, seq__lte=until).order_by("seq")
    links = tuple(
        (e["seq"], e["format"], chain.canonical_text(e) if e["format"] == 1 else chain.hash_contents(e))
        for e in between.values(*chain.FIELDS).iterator(chunk_size=500)
    )
    return ChainProof(
        first=first,
        last=until,
        prev_hash=entries[0]["prev_hash"],
        links=links,
        anchor=anchor.as_dict() if anchor else None,
        public_key=_public_key_of(anchor),
    )


def _public_key_of(anchor: SignedStatement | None) -> str:
    return keys.public_keys()[anchor.key_id].hex() if anchor else ""


def _sign_message(message: bytes, public_key: str) -> str:
    """Of the same key as the anchor's; "" where this process does not have it."""
    try:
        key = keys.signing_key()
    except Unreachable:
        return ""
    return key.sign(message).hex() if keys.public_bytes(key).hex() == public_key else ""


def _encode_json(value: Any) -> bytes:
    return json.dumps(value, cls=_Exact, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"


class _Exact(DjangoJSONEncoder):
    """Times with microseconds, as they are stored."""

    def default(self, o: Any) -> Any:
        return o.isoformat() if hasattr(o, "isoformat") else super().default(o)


def _render_page(shown: Mapping[str, object]) -> bytes:
    template = Engine().from_string((OFFLINE / "index.html").read_text("utf-8"))
    return template.render(Context(dict(shown))).encode()


def to_bytes(*, label: str, by: Actor) -> tuple[bytes, PackMade]:
    """The pack in memory: a recovery's evidence is small."""
    stream = io.BytesIO()
    made = pack_evidence(label=label, stream=stream, by=by)
    return stream.getvalue(), made
