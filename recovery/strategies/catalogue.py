"""All strategies side by side, in the order in which people weigh them."""

from dataclasses import replace

from recovery.strategies import continue_, empty, full_refresh, repair, revert
from recovery.strategies.base import Facts, Option

# in the order in which one is recommended: mending needs no reset, so it comes first where it suffices
EXECUTABLE = ("repair", "continue", "revert", "full-refresh")

POSITIONED = ("continue", "rewind")
"""Strategies that go on from a position, so that another one can be chosen."""

JUDGES = {
    "continue": continue_.judge,
    "revert": revert.judge,
    "repair": repair.judge,
    "full-refresh": full_refresh.judge,
    "empty": empty.judge,
}

NOT_HERE = {
    "rewind": "Parquet tables keep no versions to go back to.",
    "backfill": "A backup and a backfill are not part of this version; full-refresh says what can be read again.",
}


def judge_all(facts: Facts) -> tuple[Option, ...]:
    """Every strategy judged; the gentlest that can run is marked as recommended."""
    options = [judge(facts) for judge in JUDGES.values()]
    for wanted in EXECUTABLE:
        for index, option in enumerate(options):
            if option.strategy == wanted and option.blocked is None:
                options[index] = replace(option, recommended=True)
                return tuple(options)
    return tuple(options)


def not_applicable() -> list[dict[str, str]]:
    """Strategies that this flow cannot take at all, and why."""
    return [{"strategy": name, "why": why} for name, why in NOT_HERE.items()]
