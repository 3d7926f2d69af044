"""Stateful operators of a checkpoint, from operator metadata, state schema and the shape of state/."""

from collections.abc import Mapping

from recovery.checkpoints import formats
from recovery.checkpoints.findings import finding
from recovery.checkpoints.formats import CommitFile, Malformed
from recovery.checkpoints.report import Finding, StateOperator
from recovery.checkpoints.tree import Tree

PROVIDER = "spark.sql.streaming.stateStore.providerClass"


def read_operators(
    tree: Tree, conf: Mapping[str, str], commit: CommitFile | None, findings: list[Finding]
) -> tuple[StateOperator, ...]:
    """Operators by id, ascending. Ids count from the sink upwards (Spark: IncrementalExecution)."""
    present = {int(n) for n in tree.names("state") if n.isascii() and n.isdigit() and len(n) < 9}
    told = {
        int(n) for n in (commit.operators if commit else ()) if n.isascii() and n.isdigit() and len(n) < 9
    }
    expected = told | set(range(max(present, default=-1) + 1))
    for operator in sorted(expected - present)[:100]:
        findings.append(finding("STATE_MISSING", f"state/{operator}", operator=operator))
    provider = conf.get(PROVIDER, "").rsplit(".", 1)[-1] or None
    sizes = _sizes(tree)
    return tuple(_operator(tree, n, provider, sizes.get(n, 0), findings) for n in sorted(present))


def _sizes(tree: Tree) -> dict[int, int]:
    sizes: dict[int, int] = {}
    for name, size in tree.files.items():
        parts = name.split("/", 2)
        if parts[0] == "state" and len(parts) > 1 and parts[1].isascii() and parts[1].isdigit():
            sizes[int(parts[1])] = sizes.get(int(parts[1]), 0) + size
    return sizes


def _operator(
    tree: Tree, number: int, provider: str | None, size: int, findings: list[Finding]
) -> StateOperator:
    name, partitions, stores = _metadata(tree, number, findings)
    here = {int(n) for n in tree.names(f"state/{number}") if n.isascii() and n.isdigit() and len(n) < 9}
    if partitions and not here:
        findings.append(finding("STATE_MISSING", f"state/{number}", operator=number))
    elif lost := sorted(set(range(min(partitions, 1_000_000))) - here):
        findings.append(
            finding(
                "STATE_PARTITION_MISSING",
                f"state/{number}/{lost[0]}",
                operator=number,
                expected=partitions,
                partition=lost[0],
            )
        )
    return StateOperator(
        operator_id=number,
        name=name,
        partitions=partitions or len(here),
        stores=stores,
        provider=provider,
        key_columns=_keys(tree, number),
        size_bytes=size,
    )


def _metadata(tree: Tree, number: int, findings: list[Finding]) -> tuple[str, int, tuple[str, ...]]:
    file = f"state/{number}/_metadata/metadata"
    if file not in tree.files:
        if f"state/{number}/_metadata/v2" in tree.directories:
            return "transformWithState", 0, ("default",)  # only this operator writes metadata v2
        findings.append(finding("OPERATOR_METADATA_MISSING", file, operator=number))
        return "unknown", 0, ("default",)
    try:
        _, name, partitions, stores = formats.parse_operator(tree.bytes_of(file))
    except Malformed as problem:
        findings.append(finding("OPERATOR_METADATA_UNREADABLE", file, operator=number, why=problem.why))
        return "unknown", 0, ("default",)
    return name, partitions, stores or ("default",)


def _keys(tree: Tree, number: int) -> tuple[str, ...]:
    """Key column names of the default store; none where the schema is of another kind or cannot be read."""
    file = f"state/{number}/0/_metadata/schema"
    if file not in tree.files:
        return ()
    try:
        return formats.parse_key_columns(tree.bytes_of(file))
    except Malformed:
        return ()
