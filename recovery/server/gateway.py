"""Starts Spark's JVM as a child whose life hangs on ours.

PySpark's own launcher would do, but it hides the child's output and takes its settings from the
environment of whoever started us. Here the JVM gets its own configuration folder, its output goes to a log
file, and the secret token comes by environment (a command line can be read by every user of the machine).

The JVM ends when its standard input ends (`PythonGatewayServer` of Spark reads it for that purpose), so
not even SIGKILL of this process leaves a JVM behind: the kernel closes the pipe.
"""

import contextlib
import functools
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from recovery import foreign
from recovery.errors import Unreachable
from recovery.server.confinement import Confinement
from recovery.server.jail import innermost_pid, start_jailed
from recovery.server.java import Java

START_SECONDS = 120
KILLED_SECONDS = 5.0
LAST_BYTES = 1 << 16  # of a log, read for its last lines
CONNECTION_BYTES = 1 << 12
LOG4J = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss} %p %c{1}: %m%n%ex
logger.hive.name = org.apache.hadoop.hive
logger.hive.level = error
logger.metastore.name = org.apache.spark.sql.hive
logger.metastore.level = error
logger.datanucleus.name = DataNucleus
logger.datanucleus.level = error
"""


def last_lines(log: Path, count: int = 5) -> str:
    """The last lines of a log that are not stack frames, for people; the log may lie where pipelines' code writes."""
    folder, name = foreign.split(log, 2)
    with contextlib.suppress(OSError):
        text = folder.read_end(name, LAST_BYTES).decode(errors="replace")
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return " | ".join([line for line in lines if not line.startswith("at ")][-count:])
    return ""


@dataclass
class Gateway:
    """A running JVM: the jail in which it runs, and where py4j reaches it."""

    process: subprocess.Popen[bytes]
    port: int
    secret: str
    log: Path
    folder: Path = field(default_factory=Path)

    @functools.cached_property
    def pid(self) -> int:
        """The JVM's process id (the shell scripts before it `exec`); its jail ends with it."""
        return innermost_pid(self.process.pid)

    def alive(self) -> bool:
        """Whether the JVM still runs."""
        return self.process.poll() is None

    def end(self, *, seconds: float = 5.0) -> None:
        """End the JVM: by its closed input first, by signal when it takes longer than `seconds`."""
        if self.process.stdin:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the JVM now."""
        self.process.kill()
        self.process.wait(KILLED_SECONDS)


def write_configuration(folder: Path, settings: dict[str, str]) -> None:
    """Spark's configuration folder: ours alone, so that no other Spark on the machine speaks in.

    Where the driver cannot write: the shell that starts the next one reads it, and so does Java.
    """
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    (folder / "log4j2.properties").write_text(LOG4J)
    lines = [f"{key} {value}" for key, value in sorted(settings.items())]
    file = folder / "spark-defaults.conf"
    file.write_text("\n".join(lines) + "\n")
    file.chmod(0o600)


def open_log(log: Path) -> int:
    """The log file, begun again when it is longer than 20 MB."""
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if log.exists() and log.stat().st_size > 20_000_000:
        log.replace(log.with_suffix(".log.1"))
    return os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def launch_jvm(
    *,
    java: Java,
    conf: Path,
    log: Path,
    cwd: Path,
    temporary: Path,
    confinement: Confinement,
    environment: dict[str, str],
) -> Gateway:
    """Start the JVM in a jail and wait for its gateway. `environment` holds its secrets too.

    It can read `conf`, and for its start write in a new folder beside it; `temporary` is among what it can write.

    Raises Unreachable with the last lines of its log when it ends or stays silent for START_SECONDS.
    """
    import pyspark

    spark_home = Path(pyspark.__file__).parent
    info_folder = Path(tempfile.mkdtemp(prefix="start-", dir=conf.parent))
    info = info_folder / "connection"
    environment = environment | {
        "SPARK_HOME": str(spark_home),
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_CONNECT_MODE": "0",
        "JAVA_HOME": str(java.home),
        "PYSPARK_PYTHON": sys.executable,
        "TMPDIR": str(temporary),
        "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info),
    }
    output = open_log(log)
    try:
        process = start_jailed(
            [str(spark_home / "bin" / "spark-submit"), "pyspark-shell"],
            confinement=replace(
                confinement,
                readable=(*confinement.readable, conf),
                writable=(*confinement.writable, info_folder),
            ),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=cwd,
            env=environment,
            start_new_session=True,  # a terminal's Ctrl-C is for us; we end the JVM in order
        )
        port, secret = wait_for_connection(process, info, log)
    finally:
        os.close(output)
        shutil.rmtree(info_folder, ignore_errors=True)
    return Gateway(process, port, secret, log)


def wait_for_connection(process: subprocess.Popen[bytes], info: Path, log: Path) -> tuple[int, str]:
    """(port, secret) that the JVM writes when it is ready. Raises Unreachable."""
    deadline = time.monotonic() + START_SECONDS
    while not info.exists():
        if process.poll() is not None:
            raise Unreachable(
                f"Spark did not start (exit {process.returncode}): {last_lines(log)}. See {log}."
            )
        if time.monotonic() > deadline:
            process.kill()
            raise Unreachable(f"Spark did not start in {START_SECONDS} s: {last_lines(log)}. See {log}.")
        time.sleep(0.05)
    try:
        raw = foreign.ForeignFolder(info.parent).read(info.name, CONNECTION_BYTES)
        port, length = struct.unpack_from("!ii", raw)
        return port, raw[8 : 8 + length].decode()
    except (OSError, struct.error, UnicodeDecodeError) as error:
        process.kill()
        raise Unreachable(f"Spark did not say where it listens: {error}. See {log}.") from error
