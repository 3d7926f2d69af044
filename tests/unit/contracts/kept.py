"""What releases of before have sealed and gathered, out of the dumps that the tests keep."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RELEASES = Path(__file__).parents[1] / "deployed" / "releases"
_PLAN = re.compile(r"recovery_plan\"? VALUES ?\(\d+, ?'([0-9a-f]{64})', ?'")
_DIAGNOSIS = re.compile(r'\{"condition": ?"[^"]*", ?"family"')
_PROOF = re.compile(r'\{"verified": ?(?:true|false)')
_FACTS = re.compile(r'\{"status": ?"(?:none|ready)"')
_OPTIONS = re.compile(r'"options": ?')


def plans() -> Iterator[tuple[str, dict[str, Any]]]:
    """Hash and body of every sealed plan."""
    for dump in _dumps():
        for found in _PLAN.finditer(dump):
            yield found[1], json.JSONDecoder().raw_decode(dump, found.end())[0]


def options() -> Iterator[dict[str, Any]]:
    """Every option that was gathered."""
    for dump in _dumps():
        for found in _OPTIONS.finditer(dump):
            held = json.JSONDecoder().raw_decode(dump, found.end())[0]
            yield from (one for one in held if isinstance(one, dict) and "forecast" in one)


def diagnoses() -> Iterator[dict[str, Any]]:
    """Every diagnosis that was stored with a recovery."""
    for dump in _dumps():
        for found in _DIAGNOSIS.finditer(dump):
            yield json.JSONDecoder().raw_decode(dump, found.start())[0]


def proofs() -> Iterator[dict[str, Any]]:
    """Every proof that was stored with a recovery or a step."""
    for dump in _dumps():
        for found in _PROOF.finditer(dump):
            yield json.JSONDecoder().raw_decode(dump, found.start())[0]


def facts() -> Iterator[dict[str, Any]]:
    """The facts that were stored with every recovery."""
    for dump in _dumps():
        for found in _FACTS.finditer(dump):
            yield json.JSONDecoder().raw_decode(dump, found.start())[0]


def _dumps() -> Iterator[str]:
    return (path.read_text().replace("''", "'") for path in sorted(RELEASES.glob("*.sql")))
