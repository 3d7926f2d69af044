"""What is known beside a damaged checkpoint: the table's log, the inputs that lie there, the code's operators."""

from collections.abc import Sequence

from recovery.checkpoints.repair import KnownFacts, ListedInput, RepairPlan, plan_repair
from recovery.checkpoints.uris import encode_uri
from recovery.contracts.readers import ReaderOptions
from recovery.numbers import read_whole
from recovery.sinks.base import SinkReport
from recovery.sources.live.files import list_files


def preview_repair(
    place: str,
    *,
    table: str,
    sink: SinkReport,
    query_id: str | None,
    operators: Sequence[str],
    inputs: Sequence[tuple[str | None, ReaderOptions]],
    deep: bool = False,
) -> RepairPlan:
    """The repair of the flow's newest version. `query_id`: taken where the old one is lost; None: none is known.
    `deep`: state files are read.

    `inputs`: location and options of each source, in plan order. Reads only; raises Unreachable.
    """
    known = KnownFacts(
        new_query_id=query_id,
        sink_kind=sink.kind,
        sink_head=sink.head,
        operators=tuple(operators),
        listings={
            str(n): listed
            for n, (location, options) in enumerate(inputs)
            if (listed := _list_batch_inputs(location, options)) is not None
        },
    )
    return plan_repair(place, known, sink=table or None, deep=deep)


def _list_batch_inputs(location: str | None, reader_options: ReaderOptions) -> ListedInput | None:
    """None: what a batch takes is not known (place not known, or batches are cut by bytes)."""
    options = {str(k).lower(): v for k, v in reader_options.items()}
    if not location or "maxbytespertrigger" in options:
        return None
    files = tuple((encode_uri(f.path), f.mtime_ms) for f in list_files(location, options=options))
    return ListedInput(files, read_whole(options.get("maxfilespertrigger")))
