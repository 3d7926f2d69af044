"""The operator's guide says what the code does: settings and options are compared with it."""

import re
from pathlib import Path

from console.env import Env
from console.supervisor import options, tools

GUIDE = (Path(__file__).resolve().parents[3] / "docs" / "operators-guide.md").read_text()


def row(name: str) -> str:
    """The line of the settings table for one field."""
    field = Env.model_fields[name]
    default = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
    shown = f"`{default}`" if default else "empty"
    return f"| `REPRISE_{name.upper()}` | {shown} | {field.description} |"


def test_the_settings_table_is_the_settings() -> None:
    table = GUIDE.split("<!-- settings: begin", 1)[1].split("<!-- settings: end", 1)[0]
    lines = [line for line in table.splitlines() if line.startswith("| `")]

    assert lines == [row(name) for name in Env.model_fields]


def test_every_option_and_every_command_is_explained() -> None:
    wanted = set(re.findall(r"(--[a-z-]+)", options.build_parser().format_help())) - {"--help"}

    assert {option for option in wanted if f"| `{option}" not in GUIDE} == set()
    assert {name for name in tools.COMMANDS if f"bin/{name}" not in GUIDE} == set()
