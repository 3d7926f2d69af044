"""docs/audit-actions.md, generated from the registry; a test compares it.

python -m recovery.audit.document > docs/audit-actions.md
"""

import sys

from recovery.audit import reviewing
from recovery.audit.tags import ACTIONS, ASKING, ONLY, OUTCOMES, code_of_action

HEAD = """# What the audit log records

Generated from `recovery/audit/tags.py`. Every entry has a stable code, `<action>.<outcome>`: success, denial, failure
and an outcome that no one saw each have one of their own. Codes are never renamed and never used for something else.

| outcome | means |
|---|---|
| `done` | it happened; the entry was written in the same transaction |
| `denied` | the person may not; nothing was changed |
| `failed` | it was refused or went wrong; what it had changed was taken back. Of `audit.verify`: the chain is broken |
| `unknown` | it was sent and no one saw how it ended |

*Asks workers*: entries that a worker then writes about the same recovery name this person in `behalf`. *Reviewed*:
where the act is put into the review queue.

| code on success | who did it … | on denial | on failure | outcome unknown | asks workers | reviewed |
|---|---|---|---|---|---|---|
"""


def write_page() -> str:
    """The whole page as Markdown."""
    lines = [HEAD]
    for action, words in sorted(ACTIONS.items()):
        codes = [f"`{code_of_action(action, o)}`" if ONLY.get(action, o) == o else "" for o in OUTCOMES]
        asks = "yes" if action in ASKING else ""
        lines.append(
            f"| {codes[0]} | {words} | {' | '.join(codes[1:])} | {asks} | {_when_reviewed(action)} |\n"
        )
    return "".join(lines)


def _when_reviewed(action: str) -> str:
    if reviewing.why_reviewed(action, "done", ""):
        return "always"
    return "in production" if reviewing.why_reviewed(action, "done", reviewing.PRODUCTION) else ""


if __name__ == "__main__":
    sys.stdout.write(write_page())
