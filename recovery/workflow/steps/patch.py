"""patch: write the changed source through the workspace API, and read it back."""

from recovery.contracts.results import PatchResult, WrittenFile
from recovery.errors import NotFound, OutcomeUnknown, Refused
from recovery.models import Step
from recovery.pipelines.workspaces import client_for
from recovery.workflow.code_users import require_own_code
from recovery.workflow.deployed import read_sha256
from recovery.workflow.steps.base import Context, ProbeOutcome, saw

SECONDS = 120


def run(context: Context) -> PatchResult:
    """Per file: still as sealed? write; read back. A crash between two files leaves each whole, old or new.

    The API has no conditional write, so the hash is read immediately before.
    """
    done: list[WrittenFile] = []
    for change in context.contents.patch:
        path, now = change.path, read_sha256(context.client, change.path)
        if now is None:
            raise NotFound(
                f"{path} is no longer in the workspace. It was not written. Put it back, or seal a new plan."
            )
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
            read_back = read_sha256(context.client, path) or "missing"
            if read_back != change.after_sha256:
                raise OutcomeUnknown(f"{path} reads back as {read_back[:8]}, not as planned.")
            context.log(f"Read back: sha256 {read_back[:8]}…{read_back[-4:]}.")
        done.append(WrittenFile(path=path, sha256=change.after_sha256))
    return PatchResult(files=tuple(done))


def probe(step: Step) -> ProbeOutcome:
    """Every file is as planned: done. Every file is as before, or a mixture of both: can be run again."""
    assert step.plan is not None
    client = client_for(step.recovery.flow.pipeline.workspace)
    evidence, states = [], set()
    for change in step.plan.contents.patch:
        now = read_sha256(client, change.path)
        state = {change.after_sha256: "new", change.before_sha256: "old", None: "missing"}.get(now, "other")
        states.add(state)
        says = {
            "new": "is as planned",
            "old": "is still as before",
            "other": "is neither the old nor the planned file",
            "missing": "is no longer in the workspace",
        }
        evidence.append(saw(state in ("new", "old"), f"{change.path} {says[state]}."))
    if states == {"new"}:
        written = (WrittenFile(path=c.path, sha256=c.after_sha256) for c in step.plan.contents.patch)
        return ProbeOutcome("done", evidence, PatchResult(files=tuple(written)))
    return ProbeOutcome("not_done" if states <= {"new", "old"} else "unclear", evidence)
