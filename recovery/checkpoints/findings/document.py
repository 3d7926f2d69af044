"""docs/findings.md, generated from the table of findings; a test compares it.

python -m recovery.checkpoints.findings.document > docs/findings.md
"""

import sys

from recovery.checkpoints.findings import TABLE

HEAD = """# Findings of `inspect`

Generated from `recovery/checkpoints/findings/` by `.venv/bin/python -m recovery.checkpoints.findings.document`.
[Checkpoints](checkpoints.md#findings) explains severity and outcome. `{words}` in braces are filled in when a finding
is made.

| code | severity | what is wrong | what Spark does | what to do |
|---|---|---|---|---|
"""


def write_page() -> str:
    """The whole page as Markdown."""
    rows = [f"| `{k.code}` | {k.severity.value} | {k.says} | {k.spark} | {k.do} |\n" for k in TABLE]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(write_page())
