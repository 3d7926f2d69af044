"""Brings locked Java archives: connectors and s3a for Spark, the tests' S3 server and Kafka broker.

Runs inside the environment.

A list `requirements/jars/<set>.txt` holds a line `group:artifact:version[:classifier] sha256` per archive and
names no place. The place comes from `MAVEN_REPO_URL`, else from the first mirror in `~/.m2/settings.xml`, else
Ivy, which PySpark brings along, asks the registry that it knows. Whichever it was: an archive is in the cache
only once its sha256 is the locked one.
"""

import hashlib
import importlib.util
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import requests

from console.supervisor.bootstrap import JARS, ROOT, CannotStart, os_sentence, print_line
from recovery.errors import Unreachable
from recovery.server.java import find_java

LINE = re.compile(r"([\w.-]+):([\w.-]+):([\w.+-]+)(?::([\w.-]+))? ([0-9a-f]{64})")
SECONDS = (10, 60)  # to connect, and between two pieces
IVY_SECONDS = 600
AT_ONCE = 6
HELP = "check the network, or name a Maven repository in MAVEN_REPO_URL"


@dataclass(frozen=True)
class Jar:
    """One locked archive. `classifier` is empty for a project's main one."""

    group: str
    artifact: str
    version: str
    classifier: str
    sha256: str

    @property
    def file_name(self) -> str:
        tail = f"-{self.classifier}" if self.classifier else ""
        return f"{self.artifact}-{self.version}{tail}.jar"

    @property
    def path(self) -> str:
        """Below a Maven repository's address."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.file_name}"


def read_list(file: Path) -> list[Jar]:
    """The archives of a list; empty lines and lines that begin with `#` are skipped."""
    jars = []
    for line in file.read_text().splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        match = LINE.fullmatch(line.strip())
        if not match:
            raise CannotStart(
                f"{file.name} has a line that locks no archive: {line!r}; correct it.", code="bad_line"
            )
        jars.append(Jar(*(part or "" for part in match.groups())))
    return jars


def base_address(settings: Path | None = None) -> str | None:
    """Address of the Maven repository to ask, or None when no one named one."""
    if given := os.environ.get("MAVEN_REPO_URL"):
        return given.rstrip("/")
    settings = settings or Path.home() / ".m2" / "settings.xml"
    try:
        mirrors = ElementTree.parse(settings).iterfind("{*}mirrors/{*}mirror")  # noqa: S314 (the user's own file)
        listed_mirrors = [
            (m.findtext("{*}mirrorOf") or "", (m.findtext("{*}url") or "").strip()) for m in mirrors
        ]
    except FileNotFoundError:
        return None
    except (OSError, ElementTree.ParseError) as problem:
        raise CannotStart(
            f"{settings} cannot be read ({problem}); correct it or set MAVEN_REPO_URL.",
            code="settings_unreadable",
        ) from problem
    public = {"*", "central", "external:*"}
    return next(
        (url.rstrip("/") for mirrored, url in listed_mirrors if url and public & set(mirrored.split(","))),
        None,
    )


def ensure_jars(name: str, cache: Path = JARS, tell: Callable[[str], None] = print_line) -> list[Path]:
    """The archives of `requirements/jars/<name>.txt`, every one checked. Raises CannotStart with one sentence."""
    return bring_jars(read_list(ROOT / "requirements" / "jars" / f"{name}.txt"), cache / name, tell)


def bring_jars(jars: Sequence[Jar], folder: Path, tell: Callable[[str], None] = print_line) -> list[Path]:
    """Each archive in `folder` with the locked content; what is there already is checked, not fetched."""
    try:
        missing = [jar for jar in jars if not is_right(folder / jar.file_name, jar)]
        if missing:
            folder.mkdir(parents=True, exist_ok=True)
            tell(f"  Fetching {len(missing)} locked Java archives …")
            address = base_address()
            if address:
                with ThreadPoolExecutor(AT_ONCE) as pool:
                    list(pool.map(lambda jar: download_jar(address, jar, folder), missing))
            else:
                by_ivy(missing, folder)
    except OSError as problem:
        raise CannotStart(os_sentence(problem, "fetching Java archives")) from problem
    return [folder / jar.file_name for jar in jars]


def is_right(file: Path, jar: Jar) -> bool:
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == jar.sha256
    except FileNotFoundError:
        return False


def download_jar(address: str, jar: Jar, folder: Path) -> None:
    """One archive from a Maven repository. The address may hold a password: it is in no sentence."""
    try:
        with requests.get(f"{address}/{jar.path}", stream=True, timeout=SECONDS) as answer:
            if answer.status_code != 200:
                raise CannotStart(
                    f"The Maven repository answers {answer.status_code} for {jar.file_name}; {HELP}."
                )
            _keep_archive(answer.iter_content(1 << 20), jar, folder)
    except requests.RequestException as problem:
        raise CannotStart(
            f"{jar.file_name} could not be downloaded ({type(problem).__name__}); {HELP}.",
            code="not_downloaded",
        ) from problem


def _keep_archive(pieces: Iterable[bytes], jar: Jar, folder: Path) -> None:
    """Written aside, checked, renamed: another process sees the right archive or none."""
    digest = hashlib.sha256()
    handle, aside = tempfile.mkstemp(dir=folder, prefix=".", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as out:
            for piece in pieces:
                digest.update(piece)
                out.write(piece)
        if digest.hexdigest() != jar.sha256:
            raise CannotStart(
                f"The downloaded {jar.file_name} is not the one that was locked, so it was not kept; check the "
                "Maven repository that this machine uses.",
                code="not_as_locked",
            )
        Path(aside).replace(folder / jar.file_name)
    finally:
        Path(aside).unlink(missing_ok=True)


def by_ivy(jars: Sequence[Jar], folder: Path) -> None:
    """All archives through PySpark's Ivy, from the registry that it asks by itself."""
    with tempfile.TemporaryDirectory(prefix="reprise-ivy-") as name:
        room = Path(name)
        (room / "ivy.xml").write_bytes(ivy_module(jars))
        command = [*_ivy_command(room), "-ivy", str(room / "ivy.xml"), "-cache", str(room / "cache")]
        command += ["-retrieve", f"{room}/got/[artifact]-[revision](-[classifier]).[ext]"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=IVY_SECONDS, cwd=room)
        except subprocess.TimeoutExpired as problem:
            raise CannotStart(
                f"The Java archives did not come within {IVY_SECONDS // 60} minutes; {HELP}."
            ) from problem
        for jar in jars:
            got = room / "got" / jar.file_name
            if not got.exists():
                raise CannotStart(
                    f"{jar.file_name} could not be downloaded{_last_words(done)}; {HELP}.",
                    code="not_downloaded",
                )
            with got.open("rb") as stream:
                _keep_archive(iter(lambda: stream.read(1 << 20), b""), jar, folder)


def _ivy_command(room: Path) -> list[str]:
    spec = importlib.util.find_spec("pyspark")
    archives = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not archives:
        raise CannotStart("No PySpark is installed, whose Ivy fetches Java archives; set MAVEN_REPO_URL.")
    try:
        java = find_java(room / "java")
    except Unreachable as problem:
        raise CannotStart(problem.sentence) from problem
    return [
        str(java.home / "bin" / "java"),
        f"-Divy.default.ivy.user.dir={room}/ivy",
        "-jar",
        str(archives[-1]),
    ]


def ivy_module(jars: Iterable[Jar]) -> bytes:
    """An Ivy module that depends on exactly these archives and on nothing that they depend on."""
    module = ElementTree.Element(
        "ivy-module", {"version": "2.0", "xmlns:m": "http://ant.apache.org/ivy/maven"}
    )
    ElementTree.SubElement(module, "info", {"organisation": "reprise", "module": "jars"})
    ElementTree.SubElement(ElementTree.SubElement(module, "configurations"), "conf", {"name": "default"})
    all_of_them = ElementTree.SubElement(module, "dependencies", {"defaultconf": "default->master"})
    for jar in jars:
        coordinates = {"org": jar.group, "name": jar.artifact, "rev": jar.version, "transitive": "false"}
        dependency = ElementTree.SubElement(all_of_them, "dependency", coordinates)
        if jar.classifier:
            tail = {"name": jar.artifact, "type": "jar", "ext": "jar", "m:classifier": jar.classifier}
            ElementTree.SubElement(dependency, "artifact", tail)
    return ElementTree.tostring(module)


def _last_words(done: subprocess.CompletedProcess[str]) -> str:
    """What Ivy complained of, without addresses; empty when it said nothing."""
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines()]
    said = next(
        (line for line in lines if re.search(r"PKIX|UnknownHost|refused|timed out|not found", line)), ""
    )
    return f" ({re.sub(r'https?://[^ ]+', 'the registry', said)})" if said else ""
