"""One fresh Spark Connect session for one question (runs in a question's own process only).

Fresh, because a long-lived session keeps an index of the files of a table and answers from it when
the table has moved on: that looks exactly like data loss.
"""

import re
import socket
import threading
import traceback
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from recovery.errors import Refused, Unreachable, WrongUse
from recovery.eventlogs.values import TIME_ZONE
from recovery.names import shown
from recovery.spark.explained import UNCUT
from recovery.spark.programs_words import ENGINE, PLAIN

CONNECT_SECONDS = 10.0  # to open the channel; a server that is alive answers in milliseconds
NO_PROXY = ("grpc.enable_http_proxy", 0)  # the address was judged; a proxy would call another, with the token
KNOCK_SECONDS = 3.0
RETRIES = 2  # pyspark's own default goes on for ten minutes
RELEASE_SECONDS = (
    10.0  # to give the session back; Spark drops it by itself after an hour (60 minutes by default)
)


def fresh(remote: str, configuration: Mapping[str, str]) -> Any:
    """A new session with the pipeline's configuration. Raises `Unreachable` within seconds, `Refused` for a time zone
    that Spark does not know.

    Its time zone is the server's own where the configuration names none, as in an update; a plain program runs on
    another cluster, and one whose time zone is not known is studied in UTC.
    """
    import grpc
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client.core import DefaultChannelBuilder
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    _knock(remote)
    channel = DefaultChannelBuilder(remote, [NO_PROXY])
    spark = SparkSession.builder.channelBuilder(channel).create()
    client = spark.client
    client.set_retry_policies([DefaultPolicy(max_retries=RETRIES, max_backoff=500, jitter=0)])
    try:
        grpc.channel_ready_future(client._channel).result(timeout=CONNECT_SECONDS)
        settings: dict[str, str | int | bool] = {
            **({TIME_ZONE: "UTC"} if configuration.get(ENGINE) == PLAIN else {}),
            # as the server's own driver has it (recovery/server/driver.py): on 4.2.0 a task of Python hung twice
            "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
            **configuration,
            **UNCUT,
        }
        spark.conf._set_all(configs=settings, silent=True)
        zone = configuration.get(TIME_ZONE)
        if zone and spark.conf.get(TIME_ZONE) != zone:
            raise Refused(f"Spark does not know the time zone {shown(zone[:80])}.", code="time_zone_unknown")
    except grpc.FutureTimeoutError as error:
        raise Unreachable(_no_answer(remote)) from error
    except (PySparkException, grpc.RpcError) as error:
        raise Unreachable(_refusal(error)) from error
    return spark


def release_session(spark: Any) -> None:
    """Give the session back to Spark, and leave its channel open: the process ends next.

    `SparkSession.stop` closes the channel, and gRPC's `Channel.close` once did not return (grpcio 1.85.1, after
    a dataset was compared with its definition): the answer was there, and a recovery waited until its time was up.
    """

    def give_back() -> None:
        try:
            spark.client.release_session()
        except Exception:  # the answer counts; this goes to the question's log
            traceback.print_exc()

    releasing = threading.Thread(target=give_back, daemon=True)
    releasing.start()
    releasing.join(RELEASE_SECONDS)


def _knock(remote: str) -> None:
    """Is anyone there? A channel would try for its whole time. Raises Unreachable, WrongUse."""
    parts = urlsplit(remote)
    if parts.scheme != "sc" or not parts.hostname:
        raise WrongUse("The address of Spark Connect must begin with sc:// and name a host.")
    host, port = parts.hostname, parts.port or 15002
    try:
        socket.create_connection((host, port), timeout=KNOCK_SECONDS).close()
    except OSError as error:
        why = error.strerror or str(error)
        raise Unreachable(
            f"Spark Connect at {host}:{port} does not answer ({why}); check that the Spark driver runs."
        ) from error


def driver_of(spark: Any) -> str:
    """Which run of Spark answers: another one may have other settings and libraries. "": it does not say."""
    from pyspark.errors import PySparkException

    try:
        application = spark.conf.get("spark.app.id", "")
        return (
            f"{application} {spark.conf.get('spark.app.startTime', '')} {spark.version}"
            if application
            else ""
        )
    except PySparkException as error:
        if lost_contact(error):
            raise
        return ""  # a service may keep its settings to itself


def use(spark: Any, catalog: str, schema: str) -> None:
    """Names without a catalog and schema mean the pipeline's, as in an update. Raises `Refused`."""
    from pyspark.errors import AnalysisException

    try:
        spark.sql(f"USE {quoted(catalog)}.{quoted(schema)}")
    except AnalysisException as error:
        if "SCHEMA_NOT_FOUND" not in str(error):  # before the first update there is no schema yet
            raise Refused(f"Spark cannot use {catalog}.{schema}: {first_line(error)}") from error


def quoted(name: str) -> str:
    """One part of a name, safe inside SQL."""
    return "`" + name.replace("`", "``") + "`"


def first_line(error: BaseException) -> str:
    """What Spark says, without plan, SQLSTATE and stack."""
    text = str(error).strip() or type(error).__name__
    line = text.splitlines()[0].strip()
    return re.sub(r"(?<!\s)\s*SQLSTATE: \w+$", "", line).rstrip(";")


def lost_contact(error: BaseException) -> bool:
    """Is this about the way to Spark, not about the question?"""
    import grpc
    from pyspark.errors import AnalysisException

    if isinstance(error, grpc.RpcError):
        return True
    marks = ("UNAVAILABLE", "UNAUTHENTICATED", "RETRIES_EXCEEDED", "SESSION_CLOSED", "SESSION_NOT_FOUND")
    return not isinstance(error, AnalysisException) and any(mark in str(error) for mark in marks)


def _no_answer(remote: str) -> str:
    host = remote.removeprefix("sc://").split("/", 1)[0]
    hint = ""
    if "token=" in remote and not host.startswith("localhost:"):
        hint = " A token needs TLS there, except where the host is spelled localhost."
    return f"Spark Connect at {host} did not answer within {CONNECT_SECONDS:.0f} s; check that it runs.{hint}"


def _refusal(error: BaseException) -> str:
    text = str(error)
    if "authentication token" in text or "UNAUTHENTICATED" in text:
        return "Spark Connect refused the token; check the Spark address of this workspace."
    return f"Spark Connect did not answer ({first_line(error)}); check that it runs."
