"""The option that *continue*, *prime*, *rebuild* and *reread* have in common: a seeded checkpoint, then one update."""

from recovery.checkpoints.report import CheckpointReport, Finding
from recovery.contracts.forecast import Forecast
from recovery.contracts.names import StepKind, Strategy, name_strategy
from recovery.contracts.option import Blocker, Option
from recovery.contracts.steps import PlannedStep, SeedArgs
from recovery.sinks.kinds import PlannedStart
from recovery.strategies import common, mapped, sinks, starts
from recovery.strategies.base import Facts
from recovery.strategies.positions import positions


def build_seeded_option(
    facts: Facts,
    *,
    strategy: Strategy,
    summary: str,
    blocker: Blocker | None,
    forecast: Forecast,
    findings: tuple[Finding, ...],
    standing: CheckpointReport,
    start: PlannedStart,
    says: str,
    args: SeedArgs,
    new_rows: int | None,
    repeats: common.Repeats,
    again: bool = False,
    all_files_again: bool = False,
) -> Option:
    """The option of a seed after the progress of `standing`, which the sink meets as `start`.

    `says`: what the seed does, as a sentence. `new_rows`: held to by the proof; None: not counted exactly. `again`:
    rows that are read a second time may repeat rows of the table. `all_files_again`: every start is a chosen one.
    """
    last = standing.last_committed
    scope = "same" if all_files_again or starts.starts(facts) else "both"
    return Option(
        strategy=strategy,
        title=name_strategy(strategy),
        summary=summary,
        blocker=blocker,
        forecast=forecast,
        findings=findings,
        steps=common.steps(
            facts.new_code.files != facts.code.files,
            PlannedStep(
                kind=StepKind.SEED,
                says=f"{says} {common.describe_old(facts)}",
                args=args,
            ),
            common.rerun(facts),
        ),
        criteria=common.criteria(
            facts,
            begins=common.expect_batch_after(last, starts.offsets_to_begin(facts, standing)),
            files=(scope, sum(starts.read_by(source) for source in facts.sources)),
            before=facts.counts.table,
            rows=common.expect_rows(
                "new", facts.new_code.key, again=again, open_batch=sinks.find_open_batch(facts, start)
            ),
            repeats=repeats,
            new_rows=new_rows,
        ),
        rollback=common.until_committed(last, common.describe_way_back(facts)),
        code_live="Yes",
        table_meanwhile=common.readable(facts),
        positions=positions(facts, after="same"),
        mapping=mapped.as_dict(facts),
    )
