"""`manage.py adopt CHECKPOINT`: a plain Structured Streaming query joins the inventory, where it runs."""

from argparse import ArgumentParser
from typing import Any

from recovery.management.commands._base import Answer, RepriseCommand
from recovery.names import shown
from recovery.people.roles import ENVIRONMENTS, Right
from recovery.streams.actions import RUNNERS, Said, adopt_stream


class Command(RepriseCommand):
    """`{pipeline, flow}`, and what is known of it: `{state, checkpoint, sink, event_log, program, runner}`."""

    help = "Puts a plain stream on the list, by its checkpoint. Nothing of it is changed."
    right = Right.RECOVER
    examples = (
        "Examples:\n"
        "  bin/manage adopt s3://shop-lake/checkpoints/orders --sink s3://shop-lake/tables/orders "
        "--event-log s3://shop-lake/spark-events\n"
        "  bin/manage adopt /data/checkpoints/orders --program /srv/orders.py --argument --in=/data/in "
        "--start 'systemctl start orders' --stop 'systemctl stop orders' "
        "--running 'systemctl is-active --quiet orders'"
    )

    def add_options(self, parser: ArgumentParser) -> None:
        parser.add_argument("checkpoint", help="The folder that the program names as checkpointLocation.")
        parser.add_argument("--name", help="What it is called here. Default: the folder's name.")
        parser.add_argument(
            "--sink", metavar="PATH|TABLE", help="Where it writes: then its rows can be counted."
        )
        parser.add_argument(
            "--event-log", metavar="URL", help="The folder of Spark's event logs: cause, rates, state."
        )
        parser.add_argument(
            "--program", metavar="FILE", help="Its Python file: what the next start would do."
        )
        parser.add_argument(
            "--argument", action="append", metavar="A", help="An argument of the program; again for more."
        )
        parser.add_argument("--spark-python", metavar="PYTHON", help="The Python by which it is run.")
        parser.add_argument("--runner", choices=RUNNERS, help="Who starts and stops it. Default: by hand.")
        for name, says in (
            ("start", "Starts it."),
            ("stop", "Stops it."),
            ("running", "Ends with 0 while it runs, with another number else."),
        ):
            parser.add_argument(
                f"--{name}",
                metavar="CMD",
                help=f"{says} Words as for a shell, run by the worker without one.",
            )
        parser.add_argument(
            "--environment", choices=ENVIRONMENTS, help="Which rules hold for it. Default: production."
        )
        parser.add_argument(
            "--workspace", metavar="NAME", help="Which workspace of plain streams, of several."
        )

    def answer(self, options: dict[str, Any]) -> Answer:
        arguments = options["argument"]
        said = Said(
            name=options["name"],
            sink=options["sink"],
            event_log=options["event_log"],
            program=options["program"],
            arguments=None if arguments is None else tuple(arguments),
            spark_python=options["spark_python"],
            runner=options["runner"],
            start=options["start"],
            stop=options["stop"],
            running=options["running"],
            environment=options["environment"],
            workspace=options["workspace"],
        )
        stream = adopt_stream(checkpoint=options["checkpoint"], said=said, by=self.actor)
        flow = stream.pipeline.flows.get()
        data = {
            "pipeline": stream.pipeline.pipeline_id,
            "flow": flow.name,
            "state": flow.state,
            "environment": stream.pipeline.environment,
            "query_id": stream.query_ids[-1] if stream.query_ids else None,
            "checkpoint": stream.checkpoint,
            "sink": stream.sink or None,
            "event_log": stream.event_log or None,
            "program": stream.program or None,
            "runner": stream.runner,
        }
        return Answer(
            data,
            f"Stream {shown(flow.name)} is on the list: {flow.state}. Next: bin/manage diagnose "
            f"{stream.pipeline.pipeline_id}",
        )
