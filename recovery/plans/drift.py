"""Has anything moved since the plan was sealed? Any drift voids it, for good."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from recovery.plans.values import Drift

SETTINGS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "configuration": "configuration",
        "catalog": "catalog",
        "schema": "schema",
        "libraries": "list of source files",
        "root_path": "root folder",
        "storage": "storage location",
        "environment": "Python environment",
        "variables": "environment variables",
    }
)
"""What of a pipeline's settings its code reads, and where its data then lies; as people call it. What a recovery itself
changes (continuous mode, retries) is not among them."""


def compare(planned: Mapping[str, Any], now: Mapping[str, Any]) -> list[Drift]:
    """Differences between two `preconditions` values (see docs/wiring.md), most telling first."""
    found: list[Drift] = []
    if now.get("active_update"):
        found.append(
            Drift(
                "update",
                str(planned.get("active_update") or "none"),
                str(now["active_update"]),
                f"Update {now['active_update']} is running; the plan was made on a stopped pipeline.",
            )
        )
    found += _checkpoint(planned, now)
    found += _sink(planned, now)
    found += _code(planned["code"], now["code"])
    found += _settings(planned, now)
    return found


def reviewed_code(body: Mapping[str, Any]) -> dict[str, str]:
    """sha256 of each source file as the plan's own update shall read it, by path: as sealed, but for its patch."""
    patched = {change["path"]: change["after_sha256"] for change in body["patch"]}
    return {**body["preconditions"]["code"], **patched}


def from_reviewed(body: Mapping[str, Any], now: Mapping[str, Any]) -> list[Drift]:
    """How what would run `now` differs from what was reviewed. Checkpoint and sink are the plan's to change."""
    return [*_code(reviewed_code(body), now["code"]), *_settings(body["preconditions"], now)]


def _checkpoint(planned: Mapping[str, Any], now: Mapping[str, Any]) -> list[Drift]:
    old, new = planned["checkpoint"], now["checkpoint"]
    if old == new:
        return []
    if old["version"] != new["version"]:
        says = f"The flow's checkpoint is version {new['version']} now; the plan was made on version {old['version']}."
    elif old["last_committed"] != new["last_committed"]:
        says = (
            f"Batch {new['last_committed']} is the last committed one now; the plan was made after batch "
            f"{old['last_committed']}."
        )
    else:
        says = "Files of the checkpoint have changed since the plan was made."
    return [Drift("checkpoint", _brief(old), _brief(new), says)]


def _brief(checkpoint: Mapping[str, Any]) -> str:
    mark = str(checkpoint["fingerprint"])[:8]
    return f"version {checkpoint['version']}, batch {checkpoint['last_committed']}, {mark}"


def _sink(planned: Mapping[str, Any], now: Mapping[str, Any]) -> list[Drift]:
    old, new = planned["sink"], now["sink"]
    if old == new:
        return []
    if "declared" in old or "declared" in new:
        return [Drift("sink", _mark(old), _mark(new), "The sink is another one than when the plan was made.")]
    if old["head"] != new["head"]:
        says = f"The table's log ends at batch {new['head']} now; the plan was made when it ended at {old['head']}."
    else:
        says = "Files of the table's log have changed since the plan was made."
    return [Drift("sink", f"batch {old['head']}", f"batch {new['head']}", says)]


def _mark(sink: Mapping[str, Any]) -> str:
    return f"{sink.get('declared', 'a table')}, batch {sink['head']}, {str(sink['fingerprint'])[:8]}"


def _code(old: Mapping[str, str], new: Mapping[str, str]) -> list[Drift]:
    found = []
    for path in sorted({*old, *new}):
        before, after = old.get(path), new.get(path)
        if before != after:
            verb = "is new" if before is None else "is gone" if after is None else "was edited"
            found.append(
                Drift(
                    "code",
                    (before or "none")[:8],
                    (after or "none")[:8],
                    f"{path} {verb} since the plan was made.",
                )
            )
    return found


def _settings(planned: Mapping[str, Any], now: Mapping[str, Any]) -> list[Drift]:
    """By part, of those that the plan has noted: one that was sealed before settings were kept has none."""
    old, new = planned.get("settings") or {}, now.get("settings") or {}
    return [
        Drift(
            "settings",
            str(old[part])[:8],
            str(new.get(part) or "none")[:8],
            f"The pipeline's {SETTINGS.get(part, part)} was changed since the plan was made.",
        )
        for part in sorted(old)
        if old[part] != new.get(part)
    ]
