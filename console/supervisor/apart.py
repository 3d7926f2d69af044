"""Pipelines API servers of their own for some environments (REPRISE_OWN_DRIVERS), beside the demo's own server.

Each has a Spark driver, a home with its tables, checkpoints, metastore, token and settings (`instance.env`), and sees
nothing of the others' homes and data. The demo's own server keeps development, and what is not named.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from console.supervisor.bootstrap import CannotStart
from recovery.people.roles import ENVIRONMENTS

FOLDER: Final = "environments"  # in the home
STAYS: Final = "development"  # the demo's workspace and its incidents are of it
OWN_SETTINGS: Final = (
    "REPRISE_SPARK_CONF", "REPRISE_SPARK_REMOTES", "REPRISE_CODE_VARIABLES", "REPRISE_SPARK_PORT",
    "REPRISE_DATA_ROOTS", "REPRISE_ENVIRONMENTS", "REPRISE_HIDDEN_FOLDERS", "REPRISE_PIPELINES_PORT",
    "REPRISE_PIPELINES_TOKEN_FILE", "REPRISE_PIPELINES_DATABASE_URL",
)  # fmt: skip
"""What one server's may not be another's: keys of stores, tokens, databases, folders, addresses. The caller's are for
the demo's own server; another's are in the `instance.env` of its home."""


@dataclass(frozen=True)
class OwnServer:
    """A server for one environment. `data`: the folder of its data outside of its home; None: there is none."""

    environment: str
    home: Path
    data: Path | None = None

    @property
    def name(self) -> str:
        """What its process is called."""
        return f"pipelines-{self.environment}"

    @property
    def token(self) -> Path:
        """The file with the token of its API."""
        return self.home / "pipelines.token"


def read_own_servers(text: str, home: Path) -> tuple[OwnServer, ...]:
    """The servers that REPRISE_OWN_DRIVERS asks for: `environment` or `environment=folder`, by commas.

    Raises CannotStart.
    """
    servers: dict[str, OwnServer] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        environment, given, folder = part.partition("=")
        if environment not in ENVIRONMENTS or environment == STAYS or environment in servers:
            able = " or ".join(name for name in ENVIRONMENTS if name != STAYS)
            raise CannotStart(f"REPRISE_OWN_DRIVERS names {environment!r}; name {able}, each once.")
        data = Path(folder).expanduser() if given else None
        if data is not None and not (data.is_absolute() and data.is_dir()):
            raise CannotStart(f"REPRISE_OWN_DRIVERS names {folder!r}, which is no folder; make it first.")
        servers[environment] = OwnServer(environment, home / FOLDER / environment, data)
    return tuple(servers.values())


def settings_of_first(home: Path, own: Sequence[OwnServer], data_roots: Sequence[Path]) -> dict[str, str]:
    """What the demo's own server gets beside what the caller set: all that the others do not run, and nothing of
    theirs. With no others: nothing."""
    if not own:
        return {}
    folders = [server.data for server in own if server.data]
    roots = [
        root for root in data_roots if not any(root.resolve().is_relative_to(at.resolve()) for at in folders)
    ]
    held = roots or [home / "storage"] * bool(data_roots)  # no root at all would open the machine
    left = [name for name in ENVIRONMENTS if name not in {server.environment for server in own}]
    return {
        "REPRISE_ENVIRONMENTS": ",".join(left),
        "REPRISE_HIDDEN_FOLDERS": join_folders(folders),
        "REPRISE_DATA_ROOTS": join_folders(held),
    }


def environment_of(
    server: OwnServer, own: Sequence[OwnServer], caller: dict[str, str], *, home: Path, is_closed: bool
) -> dict[str, str]:
    """The environment of a server of its own. `caller`: of the instance's children; `is_closed`: whether
    REPRISE_DATA_ROOTS is set for the instance, so that this server too sees its own data alone."""
    names = {name for setting in OWN_SETTINGS for name in (setting, f"{setting}_FILE")}
    kept = {name: value for name, value in caller.items() if name not in names}
    files = [caller[name] for name in sorted(names) if name.endswith("_FILE") and caller.get(name)]
    others = [other.data for other in own if other is not server and other.data]
    roots = [server.data] if server.data else [server.home / "storage"] * is_closed
    return kept | {
        "REPRISE_HOME": str(server.home),
        "REPRISE_ENVIRONMENTS": server.environment,
        "REPRISE_HIDDEN_FOLDERS": join_folders([home, *others, *map(Path, files)]),
        "REPRISE_DATA_ROOTS": join_folders(roots),
    }


def split_folders(setting: str) -> list[Path]:
    """The folders of a setting that lists them by commas or lines."""
    return [Path(name.strip()) for name in setting.replace("\n", ",").split(",") if name.strip()]


def join_folders(folders: Sequence[Path]) -> str:
    """As a setting lists them. Raises CannotStart for a name that it could not hold."""
    if odd := next((folder for folder in folders if "," in str(folder)), None):
        raise CannotStart(f"{odd} holds a comma, which parts folders in settings; name another folder.")
    return ",".join(map(str, folders))
