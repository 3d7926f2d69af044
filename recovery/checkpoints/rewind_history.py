"""`--deep`: the files that a restart does not read, but a rewind would."""

from collections.abc import Iterable

from recovery.checkpoints import filelog, formats
from recovery.checkpoints.file_listing import MAX_LOG_BYTES, Tree
from recovery.checkpoints.findings import finding
from recovery.checkpoints.formats import Malformed
from recovery.checkpoints.report import Finding
from recovery.numbers import whole


def judge_older(tree: Tree, known: Iterable[Finding]) -> list[Finding]:
    """A warning for every offset, commit and source log file that cannot be parsed and is not in `known`."""
    said = {f.file for f in known}
    findings = []
    for name in sorted(tree.files):
        if name in said:
            continue
        try:
            _parse_file(tree, name)
        except Malformed as problem:
            findings.append(finding("OLDER_FILE_UNREADABLE", name, name=name, why=problem.why))
    return findings


def _parse_file(tree: Tree, name: str) -> None:
    folder, _, last = name.rpartition("/")
    if folder == "offsets" and whole(last) is not None:
        formats.parse_offsets(tree.bytes_of(name))
    elif folder == "commits" and whole(last) is not None:
        formats.parse_commit(tree.bytes_of(name))
    elif folder.startswith("sources/") and filelog.parse_name(last):
        data = tree.bytes_of(name, MAX_LOG_BYTES)
        if b'"path"' in data:  # only a file source's log is known here
            filelog.parse_source(data)
