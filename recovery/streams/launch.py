"""Runs one start command beside the worker that asked for it, so that a worker that ends takes no stream with it.

Standard library only: `python launch.py FOLDER`. `FOLDER/command.json` holds the words and the environment; the end of
what the command prints goes to `FOLDER/output`, its exit code to `FOLDER/exit` when it has ended, whatever it left
running.
"""

import json
import os
import select
import subprocess
import sys
from pathlib import Path

KEPT = 64 * 1024
"""Bytes of its output that are kept."""
EVERY = 4 * 1024
LOOK_SECONDS = 0.2


def main(folder: Path) -> int:
    """Run it to its end, however long that takes: what it starts may be the stream itself."""
    order = json.loads((folder / "command.json").read_text())
    (folder / "command.json").unlink()
    try:
        process = subprocess.Popen(
            order["words"], env=order["environment"], cwd=order["cwd"], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    except OSError as error:
        _write(folder / "output", f"{order['words'][0]} cannot be run: {error.strerror}".encode())
        _write(folder / "exit", b"127")
        return 127
    (folder / "pid").write_text(str(process.pid))
    assert process.stdout is not None
    kept, is_told = bytearray(), False
    while True:
        if select.select([process.stdout], [], [], LOOK_SECONDS)[0]:
            piece = os.read(process.stdout.fileno(), EVERY)
            if not piece:
                break
            kept = (kept + piece)[-KEPT:]
            _write(folder / "output", bytes(kept))
        elif not is_told and process.poll() is not None:
            # What it left behind still prints, and would be killed by a pipe that is closed.
            _write(folder / "exit", str(process.returncode).encode())
            is_told = True
    code = process.wait()
    if not is_told:
        _write(folder / "exit", str(code).encode())
    return code


def _write(place: Path, content: bytes) -> None:
    aside = place.with_suffix(".new")
    aside.write_bytes(content)
    aside.replace(place)


if __name__ == "__main__":
    if os.fork():  # whoever asked waits for this process alone, and leaves no dead child behind
        os._exit(0)
    sys.exit(main(Path(sys.argv[1])))
