"""The words of refusals that are met outside of a recovery's pages, once each: by the code that refuses.

`…` in the words stands for what differs from run to run: a folder, a time. Everything else asks for the code.
"""

import json
import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from console.supervisor import browser, home, instance, jars, tools
from console.supervisor.bootstrap import CannotStart
from recovery import outbound
from recovery.checkpoints import beginning, inspect_checkpoint, seed
from recovery.checkpoints.batches import read_batch
from recovery.checkpoints.report import SourceEntry, SourceProgress
from recovery.checkpoints.seed import SourceStart
from recovery.checkpoints.starts import refuse_not_seedable
from recovery.checkpoints.uris import decode_uri
from recovery.errors import RepriseError
from recovery.management.commands._base import _database_away
from recovery.people.roles import Actor, Role
from recovery.pipelines import itself, starters
from recovery.pipelines.errors import ActiveUpdate
from recovery.server import storage_symlink
from recovery.server.driver import Settings
from recovery.server.resets import SelectionRefused
from recovery.sinks.live import delta as sinks
from recovery.sources.live import delta as live_delta
from recovery.sources.live import files as live_files
from recovery.spark import definitions, scratch
from tests.checkpoint_builder import Built, input_uri, sink_log
from tests.unit.audit.conftest import kept_outside
from tests.unit.checkpoints.seeding import free, prepared
from tests.unit.server.test_resets import run as start_update
from tests.unit.supervisor.test_children import child_of, until_ready
from tests.unit.supervisor.test_jars import ONE

__all__ = ["kept_outside"]
ADMIN = Actor("ada", Role.ADMIN, via="command")
AUDITOR = Actor("grace", Role.AUDITOR, via="page")
KAFKA = '{"t":{"0":7}}'


@dataclass(frozen=True)
class Refusal:
    """What refuses, given an empty folder; `kind` where it is no expected failure of the product."""

    code: str
    words: str
    act: Callable[[Path], Any]
    kind: type[Exception] = RepriseError

    @property
    def name(self) -> str:
        return f"{self.code}: {self.words[:24]}"


def resolving(*found: str) -> outbound.Resolve:
    def resolve(host: str, port: int) -> list[str]:
        if not found:
            raise OSError("no such name")
        return list(found)

    return resolve


def flow_of(tmp: Path, **built: Any) -> Any:
    """The report of a checkpoint like this."""
    Built(tmp / "flow/0", **{"operators": (), **built}).write()
    return inspect_checkpoint(str(tmp / "flow"))


def unsettled(tmp: Path) -> Any:
    sink_log(tmp / "table", 0)
    Built(tmp / "flow/0", batches=0, planned=1).write()
    return seed.plan_seed(inspect_checkpoint(str(tmp / "flow"), sink=str(tmp / "table")), watermark_ms=1)


def starting(tmp: Path, start: SourceStart, **built: Any) -> Any:
    return seed.plan_seed(flow_of(tmp, **built), starts=[start])


def edited(answer: dict[str, Any], *, busy: bool = False, read_back: bool = False) -> Any:
    """The setting of a pipeline is changed at an API that answers this."""

    def edit(pipeline_id: str, body: Any) -> None:
        if busy:
            raise ActiveUpdate("An active update exists.", update_id="u-1")

    client: Any = SimpleNamespace(get_pipeline=lambda _: answer, edit_pipeline=edit)
    paused = {"pause_status": itself.PAUSED}
    if read_back:
        return starters.put(client, starters.Starter(starters.ITSELF, "shop", itself.MODE, {}, "p1"), paused)
    return itself.put(client, "p1", itself.MODE, paused)


def in_the_way(tmp: Path) -> Any:
    of = tmp / "my files"
    of.mkdir()
    link = storage_symlink.link_of(of)
    link.symlink_to(tmp)
    try:
        return storage_symlink.spark_home(of)
    finally:
        link.unlink()


def file_at(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def raising(error: Exception) -> None:
    raise error


def log_gap() -> SourceStart:
    """Of two files of log id 0 both are read again, and one of log id 1 is skipped."""
    skipped = SourceEntry(input_uri(0, 2), 1, 1)
    return SourceStart(0, 0, '{"logOffset":1}', again=again_of(0, 1), skip=(skipped,))


def again_of(*numbers: int) -> tuple[str, ...]:
    return tuple(decode_uri(input_uri(0, number)) for number in numbers)


def other_than_planned(tmp: Path) -> None:
    plan = replace(seed.plan_seed(flow_of(tmp)), committed_files=(4,))
    seed.prepare_seed(str(tmp / "flow"), plan, recovery="R-1", fence=1, guard=free)


def odd_name(tmp: Path) -> Path:
    Path(os.fsdecode(os.fsencode(tmp) + b"/caf\xe9.csv")).write_text("x")
    return tmp


def started(tmp: Path, code: str) -> Any:
    child = child_of(tmp, code)
    child.start()
    return child


def never_ready(tmp: Path) -> None:
    child = child_of(tmp, "import time; time.sleep(60)", seconds=0.3)
    child.start()
    try:
        until_ready(child)
    finally:
        child.stop(hurry=lambda: True)


def port_in_use(tmp: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        file_at(tmp / "supervisor.json", json.dumps({"kafka_port": other.getsockname()[1]}))
        instance.kafka_port(tmp)


def claimed_twice(tmp: Path) -> None:
    with home.claim_home(tmp), home.claim_home(tmp):
        pass


def wrong_browser(tmp: Path) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CONSOLE_TEST_BROWSER", str(tmp / "none"))
        browser.ensure_browser(tmp / "python", tmp / "cache", lambda _: None)


NOW = 1_700_000_000_000
PURE = (
    Refusal(
        "no_such_host",
        "nobody.example is not known to the name service of this machine.",
        lambda tmp: outbound.check(
            "https://nobody.example", allowed=outbound.AllowedAddresses(), resolve=resolving()
        ),
    ),
    Refusal(
        "outbound",
        "http://169.254.169.254 cannot be used: 169.254.169.254 is 169.254.169.254, a cloud's metadata "
        "service…",
        lambda tmp: outbound.check("http://169.254.169.254", allowed=outbound.AllowedAddresses()),
    ),
    Refusal(
        "no_tables",
        "The database has no tables yet. Start bin/demo, or run bin/manage migrate.",
        lambda tmp: raising(_database_away(OSError("no such table: recovery_flow"))),
    ),
    Refusal(
        "no_settings_read",
        "The Pipelines API answers without the pipeline's settings, so they were left alone.",
        lambda tmp: edited({}),
    ),
    Refusal(
        "changed_meanwhile",
        "The pipeline's settings were changed by someone else at the same moment (An active "
        "update exists.). They were left alone; try again.",
        lambda tmp: edited({"spec": {"name": "shop"}}, busy=True),
    ),
    Refusal(
        "no_jars",
        "REPRISE_SPARK_JARS names …, which holds no Java archive; name another folder, or none.",
        lambda tmp: Settings(Path("/h"), "local[2]", 0, "t", jars=str(tmp)).spark(),
    ),
    Refusal(
        "alias_taken",
        "… is in the way of a link to …/my files; remove it, or choose a REPRISE_HOME without spaces.",
        in_the_way,
    ),
    Refusal(
        "sink_selected",
        "The selection contains clicks_out, which is a sink: Spark's selections name tables only. "
        "Start the update without a selection; reset_checkpoint_selection takes the sink's flows.",
        lambda tmp: start_update(refresh_selection=["clicks_out"]),
        SelectionRefused,
    ),
    Refusal(
        "no_such_table",
        "The selection contains table spark_catalog.db.none, which does not exist in the graph.",
        lambda tmp: start_update(refresh_selection=["none"]),
        SelectionRefused,
    ),
    Refusal(
        "no_such_flow",
        "Reset checkpoint selection should not contain flow spark_catalog.db.none, which does not "
        "exist in the graph.",
        lambda tmp: start_update(reset_checkpoint_selection=["none"]),
        SelectionRefused,
    ),
    Refusal(
        "nothing_committed",
        "Nothing was ever committed in this checkpoint, so there is no position to keep; an "
        "update starts from the beginning anyway.",
        lambda tmp: seed.plan_seed(flow_of(tmp, batches=0, planned=1)),
    ),
    Refusal(
        "batch_unsettled",
        "The table has batch 0, and no batch was ever committed in this checkpoint, so the watermark after it is not "
        "known, which state needs. Put the old code back (revert) and let it finish batch 0, or choose full-refresh.",
        unsettled,
    ),
    Refusal(
        "not_the_first_batch",
        "Only a checkpoint whose first batch was planned and not finished can begin again: what was processed would be "
        "read a second time.",
        lambda tmp: beginning.plan_beginning(flow_of(tmp, batches=1, planned=1), (0,)),
    ),
    Refusal(
        "names_no_source",
        "Source green cannot start there: the checkpoint names no source, so this one has no name.",
        lambda tmp: starting(tmp, SourceStart(0, None, KAFKA, name="green")),
    ),
    Refusal(
        "log_id_missing",
        "Source 0 cannot start there: no file has log id 0, for which a restart after batch 0 asks.",
        lambda tmp: starting(tmp, log_gap(), batches=1, files_per_batch=2),
    ),
    Refusal(
        "no_batch",
        "Batch 7 is not in …. It holds batches 0 to 2.",
        lambda tmp: read_batch(flow_of(tmp).location, 7),
    ),
    Refusal(
        "one_version",
        "…/flow/0 looks like one version of a flow's checkpoint. Name the flow's directory above it.",
        lambda tmp: prepared(Path(flow_of(tmp).location)),
    ),
    Refusal(
        "bad_pattern",
        "The pattern [z-a]* cannot be read. Correct it in the code; Spark would refuse it too.",
        lambda tmp: live_files.list_files(
            str(file_at(tmp / "a").parent), options={"pathGlobFilter": "[z-a]*"}
        ),
    ),
    Refusal(
        "no_delta_table",
        "… holds no Delta table. Check the path; Spark would refuse it too.",
        lambda tmp: live_delta.read_table(str(tmp), offsets=[None], options={}),
    ),
    Refusal(
        "no_delta_table",
        "… holds no Delta table. Check the path and the storage.",
        lambda tmp: sinks.read_table_report(str(tmp), query_id=None),
    ),
    Refusal(
        "leaves_folder",
        "The file name '../x.py' leaves the pipeline's folder; give a plain path.",
        lambda tmp: definitions.write_files({"../x.py": ""}, "/Users/ann/p", tmp / "inside"),
    ),
    Refusal(
        "scratch_in_use",
        "… holds more than a rehearsal leaves, mine; nothing was removed.",
        lambda tmp: scratch.clear_scratch(str(file_at(tmp / "scratch/mine").parent)),
    ),
    Refusal(
        "home_unwritable",
        "The folder … cannot be written (Not a directory); set REPRISE_HOME to a folder of your own.",
        lambda tmp: home.make_home(file_at(tmp / "file") / "home"),
        CannotStart,
    ),
    Refusal(
        "already_runs",
        "Reprise already runs in … and is just starting; end it with Ctrl-C in its terminal, or set "
        "REPRISE_HOME to another folder for a second one.",
        claimed_twice,
        CannotStart,
    ),
    Refusal(
        "not_ours",
        "… was not made by bin/demo (it holds 'thesis.txt'), so --reset does not touch it; set "
        "REPRISE_HOME to the right folder.",
        lambda tmp: home.reset_home(file_at(tmp / "thesis.txt").parent),
        CannotStart,
    ),
    Refusal(
        "no_browser",
        "CONSOLE_TEST_BROWSER names …/none, which cannot be run; correct or unset it.",
        wrong_browser,
        CannotStart,
    ),
    Refusal(
        "bad_line",
        "set.txt has a line that locks no archive: 'a:b:1'; correct it.",
        lambda tmp: jars.read_list(file_at(tmp / "set.txt", "a:b:1\n")),
        CannotStart,
    ),
    Refusal(
        "settings_unreadable",
        "…/settings.xml cannot be read (…); correct it or set MAVEN_REPO_URL.",
        lambda tmp: jars.base_address(file_at(tmp / "settings.xml", "<settings>")),
        CannotStart,
    ),
    Refusal(
        "not_as_planned",
        "The prepared checkpoint does not read back as planned: … It was removed.",
        other_than_planned,
    ),
    Refusal(
        "kind_not_seedable",
        "Source 0 is of a kind that this version cannot seed; it seeds …, and sources of which the checkpoint holds "
        "nothing but a line of JSON.",
        lambda tmp: refuse_not_seedable(SourceProgress(0, "unknown", "[1]")),
    ),
    Refusal(
        "at_schema_change",
        "Source 0 is at a change of its table's schema. Let the old code read past it, then seed.",
        lambda tmp: refuse_not_seedable(SourceProgress(0, "delta", "{}", position={"sourceVersion": 3})),
    ),
    Refusal(
        "name_not_utf8",
        r"The name of file:…caf\udce9.csv is not UTF-8. Rename the file or take it away, then look again.",
        lambda tmp: live_files.list_files(str(odd_name(tmp)), options={}),
    ),
    Refusal(
        "child_ended",
        "Worker ended while starting (exit 3): the address is wrong; …worker.log has all of it.",
        lambda tmp: until_ready(started(tmp, "print('the address is wrong'); raise SystemExit(3)")),
        CannotStart,
    ),
    Refusal(
        "child_not_ready",
        "Worker was not ready within 0 s; …worker.log shows what it did.",
        never_ready,
        CannotStart,
    ),
    Refusal(
        "reads_back_otherwise",
        "The mode of continuous mode of pipeline shop was changed and reads back otherwise: UNPAUSED. Look at it in "
        "the workspace, then try again.",
        lambda tmp: edited({"spec": {"name": "shop", "continuous": True}}, read_back=True),
    ),
    Refusal(
        "not_downloaded",
        "one-1.2.jar could not be downloaded (ConnectionError); …",
        lambda tmp: jars.download_jar("http://127.0.0.1:1", ONE, tmp),
        CannotStart,
    ),
    Refusal(
        "port_taken",
        "Port …, where the demo's pipeline reads Kafka, is in use. End what uses it, or start over with --reset.",
        port_in_use,
        CannotStart,
    ),
    Refusal(
        "unknown_database",
        "--database oracle is not known; name sqlite or postgresql.",
        lambda tmp: tools.tested_database(["--database", "oracle"]),
        CannotStart,
    ),
)


@pytest.mark.parametrize("of", PURE, ids=lambda of: of.name)
def test_it_is_refused_in_these_words(of: Refusal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAVEN_REPO_URL", raising=False)
    asserted(of, tmp_path)


def asserted(of: Refusal, folder: Path) -> None:
    with pytest.raises(of.kind) as caught:
        of.act(folder)
    assert getattr(caught.value, "code", None) == of.code
    labels = sorted({*re.findall(r"\bR-\d+", said := str(caught.value))}, key=lambda label: int(label[2:]))
    for number, label in enumerate(labels, 1):
        said = re.sub(rf"\b{label}\b", f"R-{number}", said)
    assert re.fullmatch(re.escape(of.words).replace("…", ".+"), said), said
