"""What is vendored is what was vendored: bytes by sha256, licence beside it, nothing from elsewhere."""

import hashlib
import re
from pathlib import Path

import pytest

from recovery.strategies.catalogue import JUDGES

ROOT = Path(__file__).resolve().parents[3]
VENDOR = ROOT / "console" / "static" / "vendor"
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
SHEETS = sorted((ROOT / "console" / "static" / "reprise").glob("*.css"))


def test_every_vendored_file_has_the_bytes_of_the_manifest() -> None:
    listed = dict(
        reversed(line.split(maxsplit=1)) for line in (VENDOR / "MANIFEST.sha256").read_text().splitlines()
    )
    found = {
        p.name: hashlib.sha256(p.read_bytes()).hexdigest()
        for p in VENDOR.iterdir()
        if p.name not in ("LICENSES", "MANIFEST.sha256")
    }

    assert found == listed


def test_every_vendored_file_is_named_with_its_licence() -> None:
    licences = (VENDOR / "LICENSES").read_text()

    assert [p.name for p in VENDOR.iterdir() if p.suffix == ".js" and p.name not in licences] == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: str(p.relative_to(ROOT / "templates")))
def test_a_template_brings_no_inline_code_and_no_address_of_another_host(path: Path) -> None:
    text = path.read_text()

    assert (
        re.findall(
            r"""\sstyle\s*=|<style|\son[a-z]+\s*=\s*["']|<script(?![^>]*\ssrc=)|hx-on|https?://""", text
        )
        == []
    )


@pytest.mark.parametrize("path", SHEETS, ids=lambda p: p.name)
def test_a_sheet_loads_nothing_and_is_short_enough_to_read(path: Path) -> None:
    text = path.read_text()

    assert "@import" not in text
    assert "url(" not in text
    assert len(text.splitlines()) <= 400


def test_colours_stand_in_the_tokens_alone() -> None:
    colour = re.compile(r"#[0-9a-fA-F]{3,8}\b|rgb\(")
    found = {p.name: colour.findall(p.read_text()) for p in SHEETS if p.name != "tokens.css"}

    allowed = {"controls.css": ["#fff"], "components.css": ["rgb(", "rgb("], "narrow.css": ["#000"]}
    assert {n: c for n, c in found.items() if c and c != allowed.get(n)} == {}


def test_every_class_that_a_template_names_stands_in_a_sheet() -> None:
    sheets = "\n".join(p.read_text() for p in SHEETS)
    known = set(re.findall(r"\.([a-zA-Z][\w-]*)", sheets))
    used: set[str] = set()
    for path in TEMPLATES:
        text = re.sub(r"\{[%#].*?[%#]\}|\{\{.*?\}\}", " ", path.read_text())
        for names in re.findall(r'class="([^"]*)"', text):
            used |= {n for n in names.split() if re.fullmatch(r"[a-z][\w-]*[a-z0-9]", n)}

    plain = {
        "badge-pending",
        "live",
        "menu-short",
        "rank",
        "stop-sign",
        "n",
        "env-development",
        "env-staging",
    }
    assert {c for c in used if c not in known} - plain == set()


@pytest.mark.parametrize("strategy", JUDGES)
def test_what_belongs_to_a_strategy_is_shown_once_it_is_chosen(strategy: str) -> None:
    """Each strategy needs a rule of its own: without one its positions and findings are never seen."""
    sheets = "\n".join(p.read_text() for p in SHEETS)
    assert f"form:has(#st-{strategy}:checked) .for-{strategy}" in sheets
