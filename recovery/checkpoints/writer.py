"""Which Spark wrote an offset file, as far as its header tells.

Spark writes every conf of OffsetSeqMetadata.relevantSQLConfs that its version has into every header. A key tells
the version that introduced the conf; a key that a version always writes and that is not there tells an older one.
A build between two releases fits neither, and only what is beside the header can betray it.
Versions: the headers that 3.5, 4.0, 4.1, 4.2 and 4.3 were seen to write (tests/fixtures/written_by), and of what is
older the SQLConf entries. 4.0 and 4.1 write the same keys: a conf may be introduced before a header carries it.
"""

from collections.abc import Collection, Mapping

from recovery.checkpoints.formats import CommitFile, OffsetFile

PREFIX = "spark.sql.streaming."
SINCE = {
    f"{PREFIX}stateStore.rocksdb.formatVersion": (3, 2),
    f"{PREFIX}statefulOperator.useStrictDistribution": (3, 3),
    f"{PREFIX}stateStore.encodingFormat": (4, 0),
    f"{PREFIX}stateStore.rowChecksum.enabled": (4, 2),
    f"{PREFIX}queryEvolution.enableSourceEvolution": (4, 2),
    f"{PREFIX}stateStore.rocksdb.mergeOperatorVersion": (4, 2),
    "spark.sql.function.protobufExtensions.enabled": (4, 2),
    f"{PREFIX}statefulOperator.alwaysNullableOutput.enabled": (4, 3),
}
WHOLE = ((4, 0), (4, 2), (4, 3))
ALWAYS = {version: {key for key, since in SINCE.items() if since <= version} for version in WHOLE}
STATE_ENCODING = f"{PREFIX}stateStore.encodingFormat"


def before_4(conf: Mapping[str, str]) -> bool:
    """Whether a header's settings are those of a Spark older than 4.0, which writes no operator metadata."""
    return bool(conf) and STATE_ENCODING not in conf and not any(SINCE.get(k, (0, 0)) >= (4, 0) for k in conf)


def before_2_2(read: Collection[OffsetFile], commits: Collection[int]) -> bool:
    """Whether these are the logs of a Spark before 2.2: no settings in any header, and no commits."""
    return bool(read) and not commits and not any(offsets.settings for offsets in read)


def written_by(
    offsets: OffsetFile | None, commit: CommitFile | None, *, operator_metadata: bool = False
) -> dict[str, str | None] | None:
    """{at_least, before}: versions as "4.2", None where not known; None where neither is known.

    An empty conf tells nothing: no Spark since 2.2 writes one. `operator_metadata`: an operator's metadata is beside
    it, which no release before 4.0 wrote: a header that lacks what 4.0 writes is then of a build on the way there, or
    of an older Spark that ran after a newer one.
    """
    if offsets is None or not offsets.conf:
        return None
    lowest = [SINCE[key] for key in offsets.conf if key in SINCE]
    lowest += [(4, 2)] if offsets.version == 2 else []
    lowest += [(4, 0)] if commit and commit.version == 2 else []
    lowest += [(4, 2)] if commit and commit.version == 3 else []
    lacking = [version for version, keys in ALWAYS.items() if keys - set(offsets.conf)]
    if operator_metadata:
        lacking = [version for version in lacking if version > (4, 0)]
    at_least, before = max(lowest, default=None), min(lacking, default=None)
    if at_least and before and at_least >= before:
        return None  # the header contradicts itself: someone edited it
    return (
        {"at_least": _version_text(at_least), "before": _version_text(before)} if at_least or before else None
    )


def _version_text(version: tuple[int, int] | None) -> str | None:
    return f"{version[0]}.{version[1]}" if version else None
