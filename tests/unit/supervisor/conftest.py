"""What the tests of an instance's parts share: the console's socket, and what a person asked bin/demo for."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.supervisor import instance
from console.supervisor.options import DemoOptions


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """The console's socket, at a port that was free."""
    with instance.listen_on(0) as made:
        yield made


def asked(home: Path) -> DemoOptions:
    """`bin/demo --port 0`, for this home."""
    return DemoOptions(home, port=0, reset=False, incident=True)
