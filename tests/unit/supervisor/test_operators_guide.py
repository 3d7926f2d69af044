"""The operator's guide and the page of settings show what the code does."""

import re
from pathlib import Path

from console.supervisor import options, tools
from devtools import settings_page

DOCS = Path(__file__).resolve().parents[3] / "docs"
GUIDE = (DOCS / "operators-guide.md").read_text()
SETTINGS = DOCS / "settings.md"


def test_the_page_of_settings_is_what_the_code_describes() -> None:
    assert SETTINGS.read_text() == settings_page.write_page(), (
        "python -m devtools.settings_page > docs/settings.md"
    )


def test_every_option_and_every_command_is_explained() -> None:
    wanted = set(re.findall(r"(--[a-z-]+)", options.build_parser().format_help())) - {"--help"}

    assert {option for option in wanted if f"| `{option}" not in GUIDE} == set()
    assert {name for name in tools.COMMANDS if f"bin/{name}" not in GUIDE} == set()
