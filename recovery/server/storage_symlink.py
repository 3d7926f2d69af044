"""A spelling of our home that Spark gets right.

Spark Declarative Pipelines turns the storage root into a URI and uses its text as a path again: under
`/data/my files` it writes its checkpoints to `/data/my%20files`, beside the folder that was meant. So a home
with a space (or another character that a URI encodes) is given a link with a plain name, and storage roots go
through that.
"""

import hashlib
import os
import re
import tempfile
from pathlib import Path

from recovery.errors import Unreachable

PLAIN = re.compile(r"[\w/.,~@!$&()*+=:;'-]*\Z")


def is_plain(text: str) -> bool:
    """Whether Spark writes to this path or URI as it is spelled."""
    return PLAIN.match(text) is not None


def link_of(home: Path) -> Path:
    """Where the link to a home is: in a folder that lasts, named by our user and the home."""
    shelf = Path("/var/tmp")  # noqa: S108  (the link is checked to be ours before it is used)
    shelf = shelf if shelf.is_dir() else Path(tempfile.gettempdir())
    return shelf / f"reprise-{os.getuid()}-{hashlib.sha256(str(home).encode()).hexdigest()[:12]}"


def spark_home(home: Path) -> Path:
    """The home itself where its path is plain, else a link to it, made when it is missing.

    Raises Unreachable when the link's place is taken by something that is not ours.
    """
    if is_plain(str(home)):
        return home
    link = link_of(home)
    try:
        link.symlink_to(home)
    except FileExistsError:
        if not (link.is_symlink() and link.lstat().st_uid == os.getuid() and link.readlink() == home):
            text = f"{link} is in the way of a link to {home}; remove it, or choose a REPRISE_HOME without spaces."
            raise Unreachable(text, code="alias_taken") from None
    except OSError as error:
        text = f"{link} cannot be made ({error.strerror}); choose a REPRISE_HOME without spaces."
        raise Unreachable(text) from error
    return link
