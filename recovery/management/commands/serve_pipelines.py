"""`manage.py serve_pipelines`: the Pipelines API server and the Spark driver that it owns."""

import ipaddress
import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from recovery.errors import RepriseError, WrongUse


class Command(BaseCommand):
    """Serve until SIGTERM or Ctrl-C; exit 3 when Spark is lost, so that a supervisor starts it again."""

    help = "Runs the Pipelines API server with a warm Spark driver, on the loopback address."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options; their defaults come from the REPRISE_* settings."""
        home = settings.REPRISE_HOME
        parser.add_argument(
            "--port", type=int, default=settings.REPRISE_PIPELINES_PORT, help="0: any free port."
        )
        parser.add_argument(
            "--host", default="", help="Another address than 127.0.0.1; think of who can reach it."
        )
        parser.add_argument(
            "--token-file", default=str(home / "pipelines.token"), help="Read or made, mode 0600."
        )
        parser.add_argument("--json", action="store_true", help="One JSON object on stdout when ready.")

    def handle(self, *args: Any, **options: Any) -> None:
        """Start, announce, wait, end."""
        from recovery.server.process import Options, Server

        try:
            server = Server(
                Options(
                    home=Path(settings.REPRISE_HOME),
                    host=address(options["host"]),
                    port=options["port"],
                    token_file=Path(options["token_file"]).expanduser(),
                    master=settings.REPRISE_SPARK_MASTER,
                    spark_port=settings.REPRISE_SPARK_PORT,
                )
            )
            ready = server.start()
        except RepriseError as error:
            self.stderr.write(error.sentence)
            if options["json"]:
                self.stdout.write(json.dumps({"error": error.sentence, "code": error.code}))
            sys.exit(error.exit_code)
        shown = {key: value for key, value in ready.items() if key != "spark_remote"}
        text = f"The Pipelines API answers at {ready['url']} (Spark runs as process {ready['spark_pid']})."
        self.stdout.write(json.dumps(shown) if options["json"] else text)
        self.stdout.flush()
        try:
            code = server.wait()
        finally:
            server.end()
        sys.exit(code)


def address(host: str) -> str:
    """The address to listen on: loopback unless another is named. Raises WrongUse for a host name."""
    if host in ("", "localhost"):
        return "127.0.0.1"
    try:
        ipaddress.ip_address(host)
    except ValueError as error:
        raise WrongUse(f"--host {host} must be an IP address.") from error
    return host
