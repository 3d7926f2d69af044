"""The Kafka broker of `bin/demo --connectors`: one node (KRaft) from locked archives, on the loopback address only.

    python -m console.supervisor.kafka FOLDER PORT

becomes the broker: it lays out FOLDER, once, and then is Java. Whoever watches that process watches the broker.
"""

import os
import socket
import struct
import subprocess
import sys
from pathlib import Path

from console.supervisor.bootstrap import JARS, CannotStart, refuse_command
from recovery.errors import Unreachable
from recovery.server.java import find_java

CLUSTER = "cmVwcmlzZS1kZW1vLWthZg"  # 16 bytes in base64, as Kafka writes ids
# The cleaner's buffer is 128 MB by default, more than the heap: the broker would open its port and die.
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
num.partitions=1
auto.create.topics.enable=false
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.threads=1
log.cleaner.dedupe.buffer.size=4194304
num.network.threads=1
num.io.threads=2
background.threads=1
"""
METADATA, VERSION = 3, 4  # Kafka's number of the request, and the version that is spoken here


def free_port() -> int:
    """A port of the loopback address that no one uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_free(port: int) -> bool:
    """Whether a server could listen there."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def bootstrap_address(port: int) -> str:
    """What clients call `bootstrap.servers`."""
    return f"127.0.0.1:{port}"


def broker_command(folder: Path, port: int) -> list[str]:
    """The command line of the child that becomes the broker."""
    return [sys.executable, "-m", "console.supervisor.kafka", str(folder), str(port)]


def lay_out(folder: Path, port: int, archives: Path, more: str = "") -> list[str]:
    """Write the broker's settings, make its data folder where there is none; gives Java's command line.

    `more` are further lines of settings. The controller's port may differ from start to start. Raises CannotStart
    with Kafka's last words, Unreachable without a Java.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    properties = folder / "server.properties"
    text = PROPERTIES.format(port=port, controller=free_port(), data=folder / "data")
    properties.write_text(text + more)
    java = [str(find_java(folder / "java").home / "bin" / "java"), "-XX:+UseSerialGC"]
    java += ["-XX:TieredStopAtLevel=1", "-cp", f"{archives}/*"]
    tool = ["-Xmx128m", "kafka.tools.StorageTool", "format", "--ignore-formatted", "-t", CLUSTER]
    made = subprocess.run([*java, *tool, "-c", str(properties)], capture_output=True, text=True, check=False)
    if made.returncode:
        words = [line for line in (made.stdout + made.stderr).splitlines() if line.strip()]
        raise CannotStart(
            f"The folder of the Kafka broker could not be made: {(words or ['no word'])[-1]}",
            code="no_broker_folder",
        )
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"  # else each segment is logged
    return [*java, "-Xmx96m", "-Xms96m", quiet, "kafka.Kafka", str(properties)]


def is_serving(port: int) -> bool:
    """Whether a broker says that it serves. An open port is not enough: one that runs out of memory opens it too."""
    body = struct.pack(">hhih", METADATA, VERSION, 1, -1) + struct.pack(">ib", 0, 0)  # of no topic
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as client:
            client.sendall(struct.pack(">i", len(body)) + body)
            with client.makefile("rb") as stream:
                said = stream.read(16)
    except OSError:
        return False
    if len(said) < 16:
        return False
    _, asked, _, brokers = struct.unpack(">iiii", said)  # size, number of the request, throttled for, brokers
    return bool(asked == 1 and brokers > 0)


def main(folder: str, port: str) -> int:
    """Becomes the broker, so it never returns; 1 with one sentence when it cannot."""
    try:
        java = lay_out(Path(folder), int(port), JARS / "kafka-broker")
    except CannotStart as problem:
        return refuse_command(str(problem), 1)
    except Unreachable as problem:
        return refuse_command(problem.sentence, 1)
    return os.execv(java[0], java)  # noqa: S606 (this very process becomes the broker)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
