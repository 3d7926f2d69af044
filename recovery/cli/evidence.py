"""The answer of `evidence verify FILE…`: whether what the audit log gave out is still what it gave out. Offline."""

import json
import lzma
import struct
import tempfile
import zipfile
import zlib
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Final

from recovery.audit.offline import archive, verify
from recovery.audit.offline.archive import Entry, key_id
from recovery.cli.answer import CommandAnswer
from recovery.errors import Refused, RepriseError, WrongUse
from recovery.names import shown

HELP: Final = (
    "Shows whether files are what an audit log gave out: evidence packs (the ZIP or its folder), archives with their "
    ".sig beside them, exports in JSON. Needs no console. Who made them is proven only with --key."
)
MOST_FILES: Final = 100
MOST_BYTES: Final = 1 << 29
"""Of a pack, unpacked, and of an export that is not written an entry a line."""
MOST_PROBLEMS: Final = 20
UNPACKABLE: Final = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, OSError, EOFError, RuntimeError, ValueError,
)  # fmt: skip
"""What a ZIP that is damaged, encrypted or made to harm raises while it is read."""
PACK: Final = "manifest.json"
"""What makes a folder an evidence pack."""


class EvidenceKind(StrEnum):
    """What the audit log gives out."""

    PACK = "pack"
    ARCHIVE = "archive"
    EXPORT = "export"


class Signature(StrEnum):
    """Who is proven to have made a file."""

    #: the owner of the key that was given
    PROVEN = "proven"
    #: the owner of the key that the file itself names
    OWN_KEY = "own-key"
    #: anybody: there is no signature
    NONE = "none"


@dataclass(frozen=True)
class CheckedFile:
    """What one file is, and what is wrong with it."""

    file: str
    kind: EvidenceKind
    ok: bool
    signature: Signature
    #: what is wrong, in sentences; the first MOST_PROBLEMS
    problems: tuple[str, ...]
    #: what the reader has to know, in sentences
    notes: tuple[str, ...]


@dataclass(frozen=True)
class UnreadFile:
    """A file that could not be checked: it is none that the audit log gives out, or it cannot be read."""

    file: str
    code: str
    says: str
    exit_code: int


def add_options(parser: ArgumentParser) -> None:
    """The options of `evidence verify`."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="A pack, an archive, or an export in JSON.")
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="HEX",
        help="Public key that the console's operator published (bin/manage audit keys); again for more.",
    )


def answer(files: Sequence[str], keys: Sequence[str]) -> CommandAnswer:
    """`{ok, files: [CheckedFile], unread: [UnreadFile]}`. Exit 0: all fit; 1: one does not; 2: one was not checked.

    `keys`: public keys in hex that the operator of the console published. Raises WrongUse for what is no key.
    """
    known = {key_id(raw): raw for raw in map(_key_of, keys)}
    checked: list[CheckedFile] = []
    unread: list[UnreadFile] = []
    for name in files:
        try:
            checked.append(check_file(Path(name).expanduser(), known))
        except RepriseError as error:
            unread.append(UnreadFile(name, error.code, error.sentence, error.exit_code))
    is_bad = any(not one.ok for one in checked) or any(one.exit_code == 1 for one in unread)
    data = {
        "ok": not is_bad and not unread,
        "files": [asdict(one) for one in checked],
        "unread": [asdict(one) for one in unread],
    }
    text = "\n\n".join([*map(_text, checked), *map(_unread_text, unread)])
    return CommandAnswer(data, text, exit_code=1 if is_bad else 2 if unread else 0)


def check_file(file: Path, known: Mapping[str, bytes]) -> CheckedFile:
    """A pack (ZIP or unpacked), an archive with its signature beside it, or an export in JSON; `known`: public keys by
    id. Raises WrongUse, Refused."""
    if not file.exists():
        raise WrongUse(f"{file} does not exist. Check the path.")
    if file.is_dir():
        return _check_folder(file, file, known)
    if zipfile.is_zipfile(file):
        return _check_zip(file, known)
    if file.suffix == ".csv":
        raise WrongUse(
            f"{file} is for spreadsheets: some of its text was changed, so no hash fits it. Export as JSON to check it."
        )
    if file.suffix == ".jsonl" or file.with_name(f"{file.name}.sig").exists():
        return _check_archive(file, known)
    return _check_export(file)


def _key_of(text: str) -> bytes:
    try:
        raw = bytes.fromhex(text)
    except ValueError:
        raw = b""
    if len(raw) != 32:
        raise WrongUse(
            f"{shown(text[:80])} is no public key: give its 64 hex digits (bin/manage audit keys)."
        )
    return raw


def _check_zip(file: Path, known: Mapping[str, bytes]) -> CheckedFile:
    """The pack is unpacked into a folder that goes again."""
    with tempfile.TemporaryDirectory(prefix="reprise-") as folder:
        try:
            with zipfile.ZipFile(file) as zipped:
                inside = _unpack(file, zipped, Path(folder))
        except UNPACKABLE as error:
            raise Refused(f"{file} cannot be unpacked: {error}.", code="pack_unreadable") from error
        return _check_folder(file, inside, known)


def _unpack(file: Path, zipped: zipfile.ZipFile, folder: Path) -> Path:
    """Its files, flat, as a pack has them. Raises Refused for what no pack holds: somebody else made it."""
    names = [info.filename for info in zipped.infolist() if not info.is_dir()]
    parts = [PurePosixPath(name).parts for name in names]
    is_flat = all(len(p) == 2 and p[0] == parts[0][0] and ".." not in p and "\\" not in p[1] for p in parts)
    size = sum(info.file_size for info in zipped.infolist())
    if not names or not is_flat or len(set(names)) < len(names):
        raise Refused(f"{file} does not hold one folder of files, so it is no evidence pack.", code="no_pack")
    if len(names) > MOST_FILES or size > MOST_BYTES:
        raise Refused(f"{file} holds more than an evidence pack does.", code="no_pack")
    for name, (_, last) in zip(names, parts, strict=True):
        (folder / last).write_bytes(zipped.read(name))  # reads no more than the size that was added up
    return folder


def _check_folder(file: Path, folder: Path, known: Mapping[str, bytes]) -> CheckedFile:
    if not (folder / PACK).is_file():
        raise WrongUse(f"{file} holds no {PACK}, so it is no evidence pack.")
    try:
        proof = json.loads((folder / "proof.json").read_text("utf-8"))
        public = str(proof["public_key"]) if proof["anchor"] else ""
        mine = {raw.hex() for raw in known.values()}
        key = public if public in mine else min(mine, default=None)
        wrong, notes = verify.check_pack(folder, key)
    except archive.UNREADABLE as error:
        wrong, notes, public, key = [f"This is no whole pack: {error!r}."], [], "", None
    signature = Signature.NONE if not public else Signature.PROVEN if key == public else Signature.OWN_KEY
    return _checked(file, EvidenceKind.PACK, signature, wrong, notes)


def _check_archive(file: Path, known: Mapping[str, bytes]) -> CheckedFile:
    if not known:
        raise WrongUse(
            f"{file} names its key by an id alone: give the public key, with --key (bin/manage audit keys)."
        )
    problems = archive.check_archive(file, lambda: known)
    note = f"{file.name} is what was archived: its signature and its chain fit."
    signature = Signature.NONE if problems else Signature.PROVEN
    return _checked(file, EvidenceKind.ARCHIVE, signature, problems, [] if problems else [note])


def _check_export(file: Path) -> CheckedFile:
    """An export is not signed: its entries fit their hashes or they do not."""
    numbers: list[int] = []
    try:
        problems = list(archive.list_breaks(_noted(_entries_of(file), numbers), gaps=True))
    except archive.UNREADABLE as error:
        raise WrongUse(
            f"{file} is nothing that the audit log gives out: it cannot be read ({error})."
        ) from error
    if not numbers:
        raise WrongUse(f"{file} holds no entry of the audit log.")
    missing = numbers[-1] - numbers[0] + 1 - len(numbers)
    notes = [
        "NOT SIGNED: an export carries no signature. Who made it is not proven; an evidence pack proves it."
    ]
    gap = f", {missing} between them are not in the export" if missing > 0 else ""
    notes.append(f"{len(numbers)} entries, {numbers[0]} to {numbers[-1]}{gap}.")
    return _checked(file, EvidenceKind.EXPORT, Signature.NONE, problems, notes)


def _entries_of(file: Path) -> Iterator[Entry]:
    """Of a list, an entry a line, as `audit export` writes it; or of the object of its --json. Raises ValueError."""
    with file.open(encoding="utf-8") as stream:
        if stream.readline().strip() == "[":
            for line in stream:
                if line.strip() not in ("", "]"):
                    yield json.loads(line.strip().removesuffix(","))
            return
    if file.stat().st_size > MOST_BYTES:
        raise ValueError("it is too large for one value")
    value = json.loads(file.read_text("utf-8"))
    yield from value["entries"] if isinstance(value, dict) else value


def _noted(entries: Iterator[Entry], numbers: list[int]) -> Iterator[Entry]:
    for entry in entries:
        numbers.append(int(entry["seq"]))
        yield entry


def _checked(
    file: Path, kind: EvidenceKind, signature: Signature, problems: Sequence[str], notes: Sequence[str]
) -> CheckedFile:
    kept = tuple(problems[:MOST_PROBLEMS])
    if more := len(problems) - len(kept):
        kept = (*kept, f"{more} more problems.")
    return CheckedFile(str(file), kind, not problems, signature, kept, tuple(notes))


def _text(of: CheckedFile) -> str:
    end = "GOOD: everything fits." if of.ok else "NOT GOOD."
    return "\n  ".join([shown(of.file), *map(shown, (*of.notes, *of.problems)), end])


def _unread_text(of: UnreadFile) -> str:
    return f"{shown(of.file)}\n  NOT CHECKED: {shown(of.says)}"
