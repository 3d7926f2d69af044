"""What other people's code plants in a folder that it may write is never followed, waited for or read without bound."""

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from recovery import foreign
from recovery.foreign import DEEPEST, ForeignFolder

Act = Callable[[ForeignFolder, str], object]
READS: dict[str, Act] = {
    "open": lambda folder, name: os.close(folder.open(name)),
    "read": lambda folder, name: folder.read(name, 100),
    "read_end": lambda folder, name: folder.read_end(name, 100),
}
WRITES: dict[str, Act] = {
    "write": lambda folder, name: folder.write(name, b"ours"),
    "make_folder": lambda folder, name: folder.make_folder(name),
    "files": lambda folder, name: folder.files(name),
    "remove": lambda folder, name: folder.remove(name),
}


def errno_of(act: Callable[[], object]) -> int | None:
    """Which error of the system an act ends with; None where it ends well."""
    try:
        act()
    except OSError as error:
        return error.errno
    return None


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder that such code writes, and beside it a file and a folder of ours."""
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/key").write_text("secret")
    (tmp_path / "theirs").mkdir()
    return tmp_path / "theirs"


def plant_link(file: Path) -> None:
    file.symlink_to(file.parents[1] / "ours/key")


def plant_dangling_link(file: Path) -> None:
    file.symlink_to(file.parents[1] / "ours/new")


def plant_socket(file: Path) -> None:
    folder = os.open(file.parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{folder}/{file.name}")
    os.close(folder)


PLANTED: dict[str, Callable[[Path], object]] = {
    "a link": plant_link,
    "a dangling link": plant_dangling_link,
    "a pipe": os.mkfifo,
    "a socket": plant_socket,
    "a folder": Path.mkdir,
}


@pytest.mark.parametrize("act", READS)
@pytest.mark.parametrize("planted", PLANTED)
def test_nothing_but_a_regular_file_is_opened(place: Path, act: str, planted: str) -> None:
    PLANTED[planted](place / "file")

    assert errno_of(lambda: READS[act](ForeignFolder(place), "file")) is not None

    assert [file.name for file in (place.parent / "ours").iterdir()] == ["key"]


@pytest.mark.parametrize("act", [*READS, *WRITES])
def test_no_folder_is_reached_through_a_link(place: Path, act: str) -> None:
    (place / "way").symlink_to(place.parent / "ours")

    error = errno_of(lambda: (READS | WRITES)[act](ForeignFolder(place), "way/key"))

    assert error in (errno.ELOOP, errno.ENOTDIR)
    assert (place.parent / "ours/key").read_text() == "secret"


@pytest.mark.parametrize("name", ["", "/etc/passwd", "..", "../ours/key", "a/../../ours/key", "a//b", "a\0b"])
@pytest.mark.parametrize("act", [*READS, *WRITES])
def test_a_name_leads_down_only(place: Path, act: str, name: str) -> None:
    assert errno_of(lambda: (READS | WRITES)[act](ForeignFolder(place), name)) == errno.EINVAL


@pytest.mark.parametrize("planted", [name for name in PLANTED if name != "a folder"])
def test_what_is_in_the_way_of_a_file_is_replaced_and_not_written_through(place: Path, planted: str) -> None:
    PLANTED[planted](place / "file")

    ForeignFolder(place).write("file", b"ours")

    assert [file.name for file in place.iterdir()] == ["file"]
    assert not (place / "file").is_symlink()
    assert (place / "file").read_bytes() == b"ours"
    assert (place / "file").stat().st_mode & 0o777 == 0o600
    assert (place.parent / "ours/key").read_text() == "secret"


@pytest.mark.parametrize("planted", PLANTED)
def test_whatever_lies_there_is_removed_and_nothing_that_it_leads_to(place: Path, planted: str) -> None:
    PLANTED[planted](place / "file")

    ForeignFolder(place).remove("file")

    assert list(place.iterdir()) == []
    assert (place.parent / "ours/key").read_text() == "secret"


def test_a_folder_goes_with_its_links_and_not_with_what_they_lead_to(place: Path) -> None:
    (place / "a/b").mkdir(parents=True)
    (place / "a/b/way").symlink_to(place.parent / "ours")

    ForeignFolder(place).remove("a")
    ForeignFolder(place).remove("a")  # gone already

    assert list(place.iterdir()) == []
    assert (place.parent / "ours/key").read_text() == "secret"


@pytest.mark.parametrize("planted", PLANTED)
def test_a_folder_is_provided_where_something_else_lies(place: Path, planted: str) -> None:
    PLANTED[planted](place / "tmp")

    ForeignFolder(place).provide_folder("tmp")

    assert (place / "tmp").is_dir()
    assert not (place / "tmp").is_symlink()
    assert (place.parent / "ours/key").read_text() == "secret"


def test_a_listing_names_regular_files_and_no_more_than_its_bound(place: Path) -> None:
    (place / "s/deep").mkdir(parents=True)
    for name in ("s/b", "s/deep/a"):
        (place / name).write_text("x")
    for number, plant in enumerate(PLANTED.values()):
        plant(place / f"{number}")
        (place / f"{number}").rename(place / f"s/{number}")
    (place / "s/way").symlink_to(place.parent / "ours")

    assert ForeignFolder(place).files("s") == ["s/b", "s/deep/a"]
    assert errno_of(lambda: ForeignFolder(place).files("s", most=5)) == errno.EFBIG


def test_folders_in_folders_have_a_bound(place: Path) -> None:
    (place / "/".join("f" * (DEEPEST + 3)) / "g").mkdir(parents=True)

    assert errno_of(lambda: ForeignFolder(place).files("f")) == errno.EFBIG


def test_a_file_is_read_within_its_bound_or_from_its_end(place: Path) -> None:
    (place / "log").write_text("0123456789")

    assert ForeignFolder(place).read("log", 10) == b"0123456789"
    assert ForeignFolder(place).read_end("log", 4) == b"6789"
    assert ForeignFolder(place).read_end("log", 400) == b"0123456789"
    assert errno_of(lambda: ForeignFolder(place).read("log", 9)) == errno.EFBIG


def test_a_path_is_split_where_other_hands_begin() -> None:
    assert foreign.split(Path("/h/updates/u/log"), 2) == (ForeignFolder(Path("/h/updates")), "u/log")
