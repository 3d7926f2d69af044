"""Stops all that one run does on the driver, and proves that it stopped.

Tags of Spark Connect operations do not say whose job a job is: batch flows run on a thread pool that all
pipelines share, and its threads inherit the tags of whichever operation first made them. Cancelling by such a
tag would reach another pipeline's job and miss our own. What does tell them apart: a query's checkpoint folder,
a job's own `spark-session-<uuid>` tag, and the run's graph execution.
"""

import contextlib
import time
from typing import Any

from recovery.server.driver import Driver, RunKey, java_errors, watch_answers

ENDED_OPERATIONS = frozenset({"Finished", "Failed", "Canceled", "Closed"})
PATIENCE_SECONDS = 5.0
ANSWER_SECONDS = 30.0


def quiesce_run(driver: Driver, run: RunKey, *, seconds: float) -> bool:
    """Stop everything that a run still does; True when nothing is left, proved by reading again.

    Repeated until quiet, because a flow may just have begun. Then the Connect session is closed. Raises SparkDead,
    SparkSilent where the driver does not answer until ANSWER_SECONDS after that.
    """
    from recovery.server.jvm import answer_within

    stopping = Stopping(driver, run)
    begun = time.monotonic()
    with watch_answers(), answer_within(seconds + ANSWER_SECONDS):
        while not stopping.is_quiet():
            waited = time.monotonic() - begun
            if waited > seconds:
                return False
            stopping.stop_once(harder=waited > PATIENCE_SECONDS)
            time.sleep(0.05)
        close_session(driver, run.session_id)
    return True


class Stopping:
    """One run that is being stopped. What belongs to it is remembered once seen: it may vanish meanwhile."""

    def __init__(self, driver: Driver, run: RunKey) -> None:
        self.driver = driver
        self.run = run
        self.execution: Any | None = None
        self.tag: str | None = None

    def find_run(self) -> None:
        """Learn the run's graph execution and its jobs' tag, as soon as they are there."""
        holder = self.driver.holder(self.run.session_id)
        if holder is not None and self.tag is None:
            self.tag = f"spark-session-{holder.session().sessionUUID()}"
        self.execution = self.execution or self.driver.graph_execution(self.run)

    def stop_once(self, *, harder: bool) -> None:
        """One round: the graph's own loop first (it would start the next flow), then queries, then jobs.

        `harder` also interrupts the operation itself, for one that hangs before it has a graph.
        """
        with watch_answers():
            self.find_run()
            with contextlib.suppress(
                *java_errors()
            ):  # a flow that ends at this moment: the next round sees it
                if self.execution is not None:
                    self.execution.stop()
            for query in self.driver.active_queries(self.run.storage):
                with contextlib.suppress(*java_errors()):
                    query.stop()
            for job in self.list_jobs():
                self.driver.session.context.cancelJob(job)
            holder = self.driver.holder(self.run.session_id) if harder else None
            if holder is not None:
                holder.interruptAll()

    def is_quiet(self) -> bool:
        """Whether no query, operation, flow or job of the run is left.

        In this order: an ended operation begins no flow, an ended flow submits no job.
        """
        with watch_answers():
            self.find_run()
            if self.driver.active_queries(self.run.storage) or self.list_operations():
                return False
            return not self.list_flows() and not self.list_jobs()

    def list_operations(self) -> list[str]:
        """States of the session's unfinished operations; finished ones wait for their client and count not."""
        holders = self.driver.connect.executionManager().listExecuteHolders()
        own = [
            h
            for h in self.driver.elements(holders)
            if str(h.sessionHolder().sessionId()) == self.run.session_id
        ]
        states = [str(holder.eventsManager().status().toString()) for holder in own]
        return [state for state in states if state not in ENDED_OPERATIONS]

    def list_flows(self) -> list[str]:
        """Flows that still work: batch flows go on in threads of their own when their operation has ended."""
        if self.execution is None:
            return []
        flows = self.driver.elements(self.execution.flowExecutions().values())
        return [str(flow.identifier()) for flow in flows if not flow.isCompleted()]

    def list_jobs(self) -> list[int]:
        """Ids of the running Spark jobs of the session."""
        if self.tag is None:
            return []
        active = self.driver.session.context.dagScheduler().activeJobs().toList()
        tagged = [(int(job.jobId()), job.properties()) for job in self.driver.elements(active)]
        tags = {number: str(p.getProperty("spark.job.tags")).split(",") if p else [] for number, p in tagged}
        return [number for number, names in tags.items() if self.tag in names]


def close_session(driver: Driver, session_id: str) -> None:
    """Forget a run's Connect session: its views, artifacts and cached plans."""
    with watch_answers(), contextlib.suppress(*java_errors()):  # closed by its client meanwhile
        driver.connect.sessionManager().closeSession(driver.session_key(session_id), False)
