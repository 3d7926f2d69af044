"""docs/settings.md, generated from the descriptions in console/env.py; a test compares it.

python -m devtools.settings_page > docs/settings.md
"""

import sys

from console.env import Env

HEAD = """# Settings

Generated from `console/env.py` by `.venv/bin/python -m devtools.settings_page`. Set a variable `REPRISE_<NAME>`, or
`REPRISE_<NAME>_FILE`, the path of a file with the value ([operator's guide](operators-guide.md#settings)).

| variable | default | what |
|---|---|---|
"""


def write_row(name: str) -> str:
    """The line of the table for one field of `Env`."""
    field = Env.model_fields[name]
    default = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
    shown = f"`{default}`" if default else "empty"
    return f"| `REPRISE_{name.upper()}` | {shown} | {field.description} |\n"


def write_page() -> str:
    """The whole page as Markdown."""
    return HEAD + "".join(map(write_row, Env.model_fields))


if __name__ == "__main__":
    sys.stdout.write(write_page())
