"""What a person, a lifecycle rule or a failing disk does to files; every damage is made of these."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path


def sidecar(file: Path) -> Path:
    """Hadoop's checksum file of a file on the local file system."""
    return file.parent / f".{file.name}.crc"


def remove(*targets: Path) -> None:
    """Remove files or directories, each with its sidecar."""
    for target in targets:
        sidecar(target).unlink(missing_ok=True)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink()


def write(file: Path, data: str | bytes) -> None:
    """Other content, without a sidecar; makes the directory where there is none."""
    sidecar(file).unlink(missing_ok=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data.encode() if isinstance(data, str) else data)


def edit(file: Path, change: Callable[[str], str]) -> None:
    """Change a text file; fails where the change does nothing, so that no damage is made of air."""
    before = file.read_text()
    after = change(before)
    assert after != before, f"{file} did not change"
    write(file, after)


def cut(file: Path, size: int) -> None:
    """Only the first `size` bytes remain (negative: all but the last)."""
    write(file, file.read_bytes()[:size])


def keep_lines(file: Path, count: int) -> None:
    edit(file, lambda text: "\n".join(text.split("\n")[:count]))


def newer(file: Path) -> None:
    """The version line of a Spark to come."""
    edit(file, lambda text: "v9" + text[2:])


def header(file: Path, **values: object) -> None:
    """Set fields of an offset file's header."""

    def change(text: str) -> str:
        lines = text.split("\n")
        lines[1] = json.dumps({**json.loads(lines[1]), **values}, separators=(",", ":"))
        return "\n".join(lines)

    edit(file, change)


def header_conf(file: Path, name: str, value: str) -> None:
    """Set one setting in an offset file's header."""
    conf = json.loads(file.read_text().split("\n")[1])["conf"]
    assert name in conf, f"{name} is not in {file}"
    header(file, conf={**conf, name: value})


def flip(file: Path, at: float = 0.5) -> None:
    """One bit of the byte at this part of the file."""
    data = bytearray(file.read_bytes())
    data[int(len(data) * at)] ^= 0x10
    write(file, bytes(data))


def copy(source: Path, target: Path, *, sidecars: bool = False) -> None:
    """Copy a file, and its sidecar where asked."""
    shutil.copy(source, target)
    if sidecars:
        shutil.copy(sidecar(source), sidecar(target))


def orphan(file: Path, like: Path) -> None:
    """A sidecar without its file."""
    assert not file.exists()
    shutil.copy(sidecar(like), sidecar(file))


def elsewhere(target: Path) -> None:
    """Move a file or directory away and leave a symbolic link to it."""
    place = target.parents[2] / "elsewhere" / target.name
    place.parent.mkdir(exist_ok=True)
    target.rename(place)
    target.symlink_to(place)
