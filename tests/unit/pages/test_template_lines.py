"""Templates are read by people too: a cell or a sentence a line, as an editor shows it without scrolling."""

import re
from pathlib import Path

TEMPLATES = Path(__file__).resolve().parents[3] / "templates"
LONGEST = 140
ONE_TAG = re.compile(r"\s*\{%[^%]*%\}\s*")
"""Django has no tag that goes over two lines."""
LONGER = 22
"""Lines in which white space would show between two inline elements. The number only falls."""


def test_no_template_has_a_line_that_an_editor_cuts_off() -> None:
    longer = [
        f"{template.relative_to(TEMPLATES)}:{number}"
        for template in sorted(TEMPLATES.rglob("*.html"))
        if template.name != "sprite.html"  # paths of icons
        for number, line in enumerate(template.read_text().splitlines(), 1)
        if len(line) > LONGEST and not ONE_TAG.fullmatch(line)
    ]
    assert len(longer) <= LONGER, longer
