"""`manage.py serve_pipelines`: the Pipelines API server and the Spark driver that it owns."""

import ipaddress
from argparse import ArgumentParser
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from recovery.errors import WrongUse
from recovery.management.commands._base import CommandAnswer, Options, RepriseCommand

if TYPE_CHECKING:
    from recovery.server.process import Server


class Command(RepriseCommand):
    """Serve until SIGTERM or Ctrl-C; exit 3 when Spark is lost, so that a supervisor starts it again.

    With --json the one object is printed when ready.
    """

    help = "Runs the Pipelines API server with a warm Spark driver, on the loopback address."
    server: "Server"

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--port", type=int, default=settings.REPRISE_PIPELINES_PORT, help="0: any free port."
        )
        parser.add_argument(
            "--host",
            default="",
            help="Listen on another address than 127.0.0.1. Consider who can reach it.",
        )
        parser.add_argument(
            "--token-file",
            dest="server_token_file",  # not the caller's own token, which no right asks for here
            default=settings.REPRISE_PIPELINES_TOKEN_FILE or str(settings.REPRISE_HOME / "pipelines.token"),
            help="Token file; created with mode 0600 if missing.",
        )

    def answer(self, options: Options) -> CommandAnswer:
        from recovery.server.process import ConfinementDemand, Server, ServerOptions, ServerPlace

        self.server = Server(
            ServerOptions(
                home=Path(settings.REPRISE_HOME),
                host=address(options["host"]),
                port=options["port"],
                token_file=Path(options["server_token_file"]).expanduser(),
                master=settings.REPRISE_SPARK_MASTER,
                spark_port=settings.REPRISE_SPARK_PORT,
                driver_host=settings.REPRISE_SPARK_DRIVER_HOST,
                spark_conf=settings.REPRISE_SPARK_CONF,
                spark_jars=settings.REPRISE_SPARK_JARS,
                spark_remotes=settings.REPRISE_SPARK_REMOTES,
                place=ServerPlace(
                    settings.REPRISE_DATA_FOLDERS,
                    settings.REPRISE_CODE_VARIABLES,
                    settings.REPRISE_HIDDEN_FOLDERS,
                ),
                environments=settings.REPRISE_ENVIRONMENTS,
                demand=ConfinementDemand(settings.REPRISE_CONFINEMENT),
            )
        )
        ready = self.server.start()
        shown = {key: value for key, value in ready.items() if key != "spark_remote"}
        text = f"The Pipelines API answers at {ready['url']} (Spark runs as process {ready['spark_pid']})."
        return CommandAnswer(shown, text)

    def follow(self) -> int:
        try:
            return self.server.wait()
        finally:
            self.server.end()


def address(host: str) -> str:
    """The address to listen on: loopback unless another is named. Raises WrongUse for a host name."""
    if host in ("", "localhost"):
        return "127.0.0.1"
    try:
        ipaddress.ip_address(host)
    except ValueError as error:
        raise WrongUse(f"--host {host} must be an IP address.") from error
    return host
