"""patch: write the changed source through the workspace API, and read it back."""

import hashlib
from collections.abc import Mapping
from typing import Any

from recovery.contracts import codec
from recovery.contracts.results import PatchResult, WrittenFile
from recovery.errors import OutcomeUnknown, Refused
from recovery.models import Step
from recovery.pipelines.client import PipelinesClient
from recovery.pipelines.workspaces import client_for
from recovery.workflow.code_users import require_own_code
from recovery.workflow.steps.base import Context, ProbeOutcome, saw

SECONDS = 120


def run(context: Context) -> Mapping[str, Any]:
    """Per file: still as sealed? write; read back. A crash between two files leaves each whole, old or new.

    The API has no conditional write, so the hash is read immediately before.
    """
    done: list[WrittenFile] = []
    for change in context.contents.patch:
        path, now = change.path, _sha(context.client, change.path)
        if now == change.after_sha256:
            context.log(f"{path} is already as planned.")
        elif now != change.before_sha256:
            raise Refused(
                f"{path} is not the file that the plan was made on (sha256 {now[:8]}, planned "
                f"{change.before_sha256[:8]}). It was left alone. Seal a new plan."
            )
        else:
            require_own_code(context.flow, [path])  # others may have come since the seal
            context.watch.guard()
            context.client.import_file(path, change.after.encode())
            context.log(f"{path} written.")
            read_back = _sha(context.client, path)
            if read_back != change.after_sha256:
                raise OutcomeUnknown(f"{path} reads back as {read_back[:8]}, not as planned.")
            context.log(f"Read back: sha256 {read_back[:8]}…{read_back[-4:]}.")
        done.append(WrittenFile(path=path, sha256=change.after_sha256))
    return codec.to_json(PatchResult(files=tuple(done)))


def _sha(client: PipelinesClient, path: str) -> str:
    return hashlib.sha256(client.export(path)).hexdigest()


def probe(step: Step) -> ProbeOutcome:
    """Every file is as planned: done. Every file is as before, or a mixture of both: can be run again."""
    assert step.plan is not None
    client = client_for(step.recovery.flow.pipeline.workspace)
    evidence, states = [], set()
    for change in step.plan.contents.patch:
        now = _sha(client, change.path)
        state = {change.after_sha256: "new", change.before_sha256: "old"}.get(now, "other")
        states.add(state)
        says = {
            "new": "is as planned",
            "old": "is still as before",
            "other": "is neither the old nor the planned file",
        }
        evidence.append(saw(state != "other", f"{change.path} {says[state]}."))
    if states == {"new"}:
        written = (WrittenFile(path=c.path, sha256=c.after_sha256) for c in step.plan.contents.patch)
        return ProbeOutcome("done", evidence, codec.to_json(PatchResult(files=tuple(written))))
    return ProbeOutcome("unclear" if "other" in states else "not_done", evidence)
