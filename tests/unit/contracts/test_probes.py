"""What is found out about a step is stored and sent as it was before there were values."""

import json
from typing import Any

import pytest

from recovery.contracts import codec
from recovery.contracts.probes import EvidenceLine, Probe, ProbeAnswer, ProbeQuestion, read_evidence

PROBE = {
    "number": 2,
    "began": "2026-11-23T00:00:00+00:00",
    "ended": "2026-11-23T00:00:04+00:00",
    "readings": [
        {"asked": "effect", "proven": None, "says": "Not read.", "at": "2026-11-23T00:00:01+00:00"},
        {"asked": "worker", "proven": True, "says": "gone", "at": "2026-11-23T00:00:02+00:00"},
    ],
    "following": "",
}


def test_a_probe_keeps_its_bytes() -> None:
    probe = codec.read(Probe, PROBE)
    assert json.dumps(codec.to_json(probe)) == json.dumps(PROBE)
    assert probe.readings[1] == ProbeAnswer(
        asked=ProbeQuestion.WORKER, proven=True, says="gone", at="2026-11-23T00:00:02+00:00"
    )


def test_a_line_of_evidence_keeps_its_bytes_and_is_open_where_nothing_was_read() -> None:
    stored: list[dict[str, Any]] = [{"proven": p, "says": "…"} for p in (True, False, None)]
    lines = read_evidence(stored)
    assert json.dumps([codec.to_json(line) for line in lines]) == json.dumps(stored)
    assert read_evidence([{"says": "…"}]) == (EvidenceLine(proven=None, says="…"),)


@pytest.mark.parametrize("line", [{"proven": True}, {"proven": 1, "says": ""}, {"says": "", "more": 1}])
def test_what_is_no_evidence_is_refused(line: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="EvidenceLine"):
        read_evidence([line])
