"""What a step leaves on its row when it is done, for the next step, a rollback and the pages: one value a kind."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Literal

from pydantic import ConfigDict

from recovery.contracts.measured import Measured, MeasuredBelow, MeasuredOutcome, ReachedInput, Verdict
from recovery.contracts.value import DataRow, Duration, Flag, Number, Value


class StepResult(Value):
    """The row also holds notes of the runner and of people (`StepNotes`): they are left out."""

    model_config = ConfigDict(extra="ignore")

    def lay_over(self, row: DataRow) -> dict[str, object]:
        """What the row of the step holds with this result, every field of it; what others noted there stays."""
        return {**row, **self.model_dump(mode="json")}


class PartialResult(StepResult):
    """What is kept piece by piece, as each is known: a field that is not set stays as the row has it."""

    def lay_over(self, row: DataRow) -> dict[str, object]:
        """What the row holds with the fields that are set."""
        written = self.model_dump(mode="json")
        return {**row, **{name: written[name] for name in written if name in self.model_fields_set}}


class NotedFiles(Value):
    """Which data files a table had, kept in pages (`workflow.noted_files`)."""

    files: Number
    """How many."""
    sha256: str
    """Over all lines of the pages."""
    marked: Flag
    """Whether sizes and times were noted too."""


class DataFilesResult(StepResult):
    """A step that noted the data files of the flow's table."""

    noted_files: NotedFiles | None = None
    """Which they are; None: of a row from before they were kept in pages."""
    sink_files: tuple[str, ...] = ()
    """Decoded URIs of the files, of a row from before pages."""
    sink_marks: Mapping[str, tuple[int | None, ...]] | None = None
    """Bytes, and time in ms, of each by its name below the table, of a row from before pages."""


class TopicMark(Value):
    """Where the topic that a flow writes to ended."""

    ends: str
    """The offsets behind the last committed record, as Spark's offset line."""
    failed: str | None
    """The first offsets at which a failed attempt of the planned batch may have written; None: there is none."""
    failed_early: str | None = None
    """The same, where the clocks of its cluster do not agree."""
    ids: Mapping[str, str]
    """The id of each topic."""
    topics: tuple[str, ...]
    """Their names."""


class NamedBy(StrEnum):
    """How a job names a dataset."""

    TRIGGER = "trigger"
    """It starts when the dataset changes."""
    PARAMETER = "parameter"
    """A parameter has its name; whether the job reads it, writes it or does neither, is not known."""


class NamingJob(Value):
    """A job of the workspace that names a dataset."""

    job_id: Number
    """Its number in the workspace."""
    name: str
    """Its name."""
    dataset: str
    """The dataset's full name."""
    by: NamedBy
    """How it names it."""
    task: str = ""
    """The key of the task; "": the job itself."""
    parameter: str = ""
    """The name of the parameter; "": it has none."""


class StoppedResult(PartialResult):
    """The early stop: the pipeline is quiet, and what would have started it again."""

    was: Literal["idle", "running", "unknown"] | None = None
    """What it was before; None: the stop has not ended."""
    seconds: Duration | None = None
    """How long the stop took; None: not known."""
    update_id: str | None = None
    """The update that was stopped; None: none ran."""
    ended: str | None = None
    """The state in which that update ended."""
    begun: str | None = None
    """When the stop began, in ISO form."""
    stopped: str | None = None
    """The update that was asked to stop last; None: none was."""
    jobs: tuple[str, ...] | None = None
    """What would start the pipeline again, for people; None: not looked at."""
    jobs_unknown: str = ""
    """Why it is not known what would; "": it is."""
    jobs_below: tuple[NamingJob, ...] | None = None
    """Jobs that name the flow's table or a dataset below it; None: not looked for, or not known."""
    proof: str = ""
    """By what it is known that nothing ran (`StandstillProof`); "": something ran, or it was not kept."""


class StandstillResult(DataFilesResult):
    """A plan's stop: nothing has moved since the seal. What is noted here, the proof compares with."""

    proved: tuple[str, ...] = ()
    """The preconditions that were read again."""
    others: Mapping[str, str | None]
    """Fingerprints of the places that the plan must leave alone, by name."""
    newest_update: str | None = None
    """The pipeline's newest update at that time; None: it has none."""
    sink_version: Number | None = None
    """The version of the table; None: of one that counts no commits."""
    topic: TopicMark | None = None
    """Where the topic ended; None: the flow writes to none, or it was not known."""


class KeptCheckpoint(Value):
    """The checkpoint that a rollback goes back to."""

    place: str
    """Where the flow's checkpoint is."""
    version: Number | None
    """Its version; None: it has one fixed place."""
    query_id: str | None
    """The id of its query."""
    last_committed: Number | None
    """Its last committed batch; None: it has none."""
    offsets: tuple[str | None, ...]
    """The offset line of each source."""
    fingerprint: str
    """sha256 over its logs."""


class BackupResult(StepResult):
    """What is kept for a rollback."""

    files: Mapping[str, str]
    """sha256 of each source file, by path."""
    bytes: Number
    """Of all of them."""
    checkpoint: KeptCheckpoint
    """What the checkpoint goes back to."""


class TableBackupResult(StepResult):
    """The copy of the table that was kept before it is emptied. Its manifest beside the rows holds the same."""

    place: str
    """The folder of the backup; its rows are Parquet files in `rows` below it."""
    rows_folder: str
    """The folder of the rows, with `place` before it."""
    table: str
    """The full name of the table."""
    version: Number
    """The version of the table that was copied."""
    rows: Number
    """How many rows it had; the copy was read back with as many."""
    digest: str
    """A digest of all rows in every column, whatever their order; the copy was read back with the same."""
    columns: tuple[str, ...]
    """Its columns."""
    key: tuple[str, ...]
    """By which rows are filled back; no two rows of the copy have the same."""
    files: Number
    """Data files of the copy."""
    bytes: Number
    """Of all of them."""
    at: str
    """When it was made, in ISO form, UTC."""


class ListedBackup(Value):
    """A backup as programs read it in the list of those that are there."""

    recovery: str
    """The label of the recovery that made it."""
    table: str
    """The full name of the table."""
    place: str
    """The folder of the backup."""
    version: Number
    """The version of the table that was copied."""
    rows: Number
    """How many rows it has."""
    bytes: Number
    """Of its data files."""
    at: str
    """When it was made, in ISO form, UTC."""
    is_there: Flag | None
    """None: its storage could not be asked."""
    stays: str
    """Why it is not removed yet; "": it may be."""


class FillResult(StepResult):
    """The rows of the backup, or of the input, that the table lacked."""

    rows: Number
    """How many were written; 0: it lacked none, so nothing was written."""
    before: Number
    """The version of the table right before them."""
    version: Number
    """The version with the rows; the same where nothing was written."""
    app_id: str
    """The id under which the table's log holds the write: it is never done twice."""


class DeduplicateResult(StepResult):
    """The rows that the table had too often."""

    rows: Number
    """How many were deleted."""
    before: Number
    """The version of the table right before."""
    version: Number
    """The version without them."""
    app_id: str
    """The id under which the table's log holds the deletion: it is never done twice."""


class WrittenFile(Value):
    """A source file as it is in the workspace now."""

    path: str
    """Its path."""
    sha256: str
    """Of what was read back."""


class PatchResult(StepResult):
    """The source files that the plan wrote."""

    files: tuple[WrittenFile, ...]
    """Each, as planned."""


class RestoreResult(DataFilesResult):
    """The table as it was put back. What is noted here, the proof compares with."""

    batch: Number
    """The newest batch that it holds."""
    removed_files: Number
    """How many data files left it."""
    sink_version: Number | None = None
    """Its version after that; None: of a table that counts no commits."""


class SeedResult(StepResult):
    """The checkpoint that was put into place."""

    version: Number | None
    """Its version; None: it has one fixed place."""
    from_version: Number | None = None
    """The version that it was made from, which is untouched."""
    query_id: str | None = None
    """The id of its query."""
    last_committed: Number | None = None
    """Its last committed batch; None: it has none."""
    last_planned: Number | None = None
    """The newest batch that it has planned; None: it has none, or an older version did not note it."""
    offsets: tuple[str | None, ...] = ()
    """The offset line of each source."""


class StartRequest(Value):
    """What a step notes before it asks for its update, so that the update can be told from those of others."""

    selection: Mapping[str, Any]
    """The start request, as the Pipelines API takes it."""
    request_id: str
    """The id of the request that it belongs to; "": none."""
    at: str
    """When it was asked for, in ISO form, UTC."""


class SourceEnd(Value):
    """Where a source that is no files ended."""

    latest: str | None
    """The offset line behind everything that it had; None: not known."""


InputMark = tuple[str, ...] | SourceEnd
"""What one source held: decoded URIs of its files, or its end."""


class UpdateResult(PartialResult):
    """A step that starts one update, a rerun or a refresh."""

    newest_before: str | None = None
    """The pipeline's newest update before the start request; None: it had none, or there was no start request yet."""
    asked: StartRequest | None = None
    """The start request; None: none yet, or of a release that did not note it."""
    unnoted: Flag = True
    """Whether a start request may have been accepted whose update is not noted."""
    unclear: tuple[str, ...] = ()
    """Updates of which it is neither proven nor ruled out that they are this step's."""
    listed: Mapping[str, InputMark] = {}
    """What each input held right before the start, by its index in the plan."""
    listed_together: Mapping[str, Mapping[str, InputMark]] = {}
    """The same of every plan that runs together with this one, by the label of its recovery."""
    update_id: str | None = None
    """The step's update; None: none is noted, or it did not complete."""
    updates: tuple[str, ...] = ()
    """Every update that was noted, first one first. Of releases that did not keep all: none."""
    ended: str | None = None
    """The last update that did not complete; None: none."""
    state: str | None = None
    """How the update ended; None: it has not, or did not complete."""

    @property
    def started(self) -> tuple[str, ...]:
        """Every update that the step has started, the first one first; of a step of a release that did not keep all,
        the last two. Those of attempts that failed count: their batches are the step's too."""
        noted = self.updates or (self.ended,)
        return tuple(u for u in dict.fromkeys((*noted, self.update_id)) if u)

    @property
    def has_unnoted_start(self) -> bool:
        """Whether an attempt reached its start request and no update of it is noted."""
        return "newest_before" in self.model_fields_set and self.unnoted and not self.update_id

    @property
    def may_have_run(self) -> bool:
        """Whether it has started an update, or may have."""
        return bool(self.started) or self.has_unnoted_start

    def note_update(self, update_id: str) -> "UpdateResult":
        """The piece that is kept once this update is known to be the step's."""
        every = dict.fromkeys((*self.started, update_id))
        return UpdateResult(update_id=update_id, updates=tuple(every), unnoted=False)


class BeforeFurther(Value):
    """What was measured before the further update, kept while that runs."""

    verdict: Verdict
    """The criteria; the late ones (`judge.LATE`) are judged when that update has ended."""
    outcome: MeasuredOutcome
    """What became of rows."""
    below: MeasuredBelow
    """What became of the datasets below."""
    rows: Number | None
    """Rows of the table, or records of a topic since the rerun began; None: not known."""
    listed: Mapping[str, InputMark]
    """What each input held, by its index in the plan."""
    version: Number | None
    """The version of the table; None: of one that counts no commits, or a topic."""
    files: tuple[str, ...]
    """Data files, of a row from before they were kept in pages."""
    ends: str | None
    """Where the topic ended, as an offset line; None of a table."""
    strange: Number | None
    """Records of others in the topic; None of a table."""
    positions: tuple[str | None, ...] | None = None
    """The offset line of each of the checkpoint's sources; None: not noted."""
    reached: tuple[ReachedInput, ...] = ()
    """The same by the plan's inputs, for the proof; (): not noted."""
    last_batch: Number | None = None
    """The last batch that the checkpoint had committed; None: none, or not noted."""
    together: Mapping[str, str | None] | None = None
    """Fingerprints of what plans that run together with this one write; None: it runs alone, or not noted."""


class VerifyResult(PartialResult, DataFilesResult):
    """A proof. Until its further update has ended, what was measured before it."""

    before_further: BeforeFurther | None = None
    """What was measured before; None: nothing yet, or the further update has been judged."""
    further: str | None = None
    """The further update; None: none runs."""
    measured: Measured | None = None
    """The proof; None: the further update has not ended."""


class RollbackResult(StepResult):
    """What was undone."""

    checkpoint: Flag
    """Whether the old checkpoint is in use again."""
    files: tuple[str, ...]
    """Paths of the source files that were written back."""
    table: Number | None = None
    """The version that the table was put back to; None: it was left as it is."""
