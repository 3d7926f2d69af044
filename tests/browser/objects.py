"""What a responder does on each page, by the words that stand there: for tests of whole walks."""

import re

from playwright.sync_api import Page, expect

from recovery.contracts.names import name_strategy

WAIT_MS = 120_000


class SignIn:
    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url.rstrip("/")

    def as_(self, name: str, password: str) -> "Inventory":
        """Sign in and land on the inventory."""
        self.page.goto(f"{self.url}/sign-in")
        self.page.get_by_label("Name", exact=True).fill(name)
        self.page.get_by_label("Password").fill(password)
        self.page.get_by_role("button", name="Sign in").click()
        expect(self.page.get_by_role("heading", name="Flows", level=1)).to_be_visible()
        return Inventory(self.page, self.url)


class Inventory:
    def __init__(self, page: Page, url: str) -> None:
        self.page, self.url = page, url.rstrip("/")

    def open(self, show: str = "attention") -> "Inventory":
        self.page.goto(f"{self.url}/?show={show}")
        return self

    def wait_for_failed(self, flow: str) -> "Inventory":
        """The list refreshes itself until the poller has seen the failure."""
        row = self.page.get_by_role("row").filter(has_text=flow).filter(has_text="Failed")
        expect(row.first).to_be_visible(timeout=WAIT_MS)
        return self

    def flow(self, short: str) -> "FlowPage":
        self.page.get_by_role("link", name=short, exact=True).first.click()
        return FlowPage(self.page)


class FlowPage:
    def __init__(self, page: Page) -> None:
        self.page = page

    def tab(self, name: str) -> "FlowPage":
        self.page.get_by_role("navigation", name="Parts of this flow").get_by_role("link", name=name).click()
        return self

    def count_below(self) -> "FlowPage":
        """Have the rows below counted; wait until that is done."""
        self.page.get_by_role("button", name="Count rows").click()
        expect(self.page.locator('#below [data-code="count-counted"]')).to_be_visible(timeout=WAIT_MS)
        return self

    def rows_below(self, dataset: str) -> tuple[tuple[str | None, str | None], ...]:
        """Rows that a dataset below holds and those that it should, each with its code, which tells why it is not
        known."""
        row = self.page.locator(f'#below tr[data-value="{dataset}"]')
        cells = (row.locator(f'[data-code^="{name}-"]') for name in ("now", "should"))
        return tuple((cell.get_attribute("data-code"), cell.get_attribute("data-value")) for cell in cells)

    def recover(self) -> "Wizard":
        """Open a recovery in one's own name."""
        self.page.get_by_role("button", name="Diagnose and recover").click()
        expect(self.page.get_by_role("heading", name="Diagnose", level=1)).to_be_visible()
        return Wizard(self.page)


class Wizard:
    """Each method is one primary act; it returns when the page shows what came of it."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def _at(self, title: str) -> "Wizard":
        expect(self.page.get_by_role("heading", name=title, level=1, exact=True)).to_be_visible()
        return self

    def _press(self, word: str | re.Pattern[str]) -> None:
        bar = self.page.locator("#bar")
        bar.get_by_role("button", name=word).or_(bar.get_by_role("link", name=word)).click()

    def stop(self) -> "Wizard":
        """Stop the pipeline; wait until it is read back as stopped."""
        self._press(re.compile("^Stop "))
        self._at("Stop")
        expect(self.page.get_by_text("No update of this pipeline is active.")).to_be_visible(timeout=WAIT_MS)
        return self

    def count_rows(self) -> "Wizard":
        """Have the facts gathered; wait for the comparison."""
        self._press(re.compile("Start offset$"))
        self._at("Start offset")
        expect(self.page.get_by_role("region", name="Strategies compared")).to_be_visible(timeout=WAIT_MS)
        return self

    def cell(self, question: str, strategy: str) -> str:
        """Text of one cell of the comparison."""
        row = self.page.get_by_role("row").filter(has=self.page.get_by_role("rowheader", name=question))
        return row.locator(f'td[data-label="{strategy}"]').inner_text()

    def why_not(self, strategy: str) -> str:
        """Why a strategy does not fit, from the fold below the comparison."""
        fold = self.page.locator('[data-code="not-applicable"]')
        if fold.get_attribute("open") is None:
            fold.locator("summary").click()
        return fold.locator("dd").filter(has=self.page.locator(f'[data-value="{strategy}"]')).inner_text()

    def choose(self, strategy: str, key: str = "") -> "Wizard":
        self.page.locator(f"#st-{strategy}").check()
        if key:
            self.page.get_by_label("Key columns, by commas").fill(key)
        self._press("Use this strategy, go to Patch code")
        return self._at("Patch code")

    def start_offsets(self, strategy: str) -> "Wizard":
        """Choose a strategy and go to where its start is chosen; wait until the sources were asked."""
        self.page.locator(f"#st-{strategy}").check()
        self.page.get_by_role("button", name=f"Use {name_strategy(strategy)}, look at start offsets").click()
        expect(self.page.get_by_role("heading", name=re.compile("^Source 0:"))).to_be_visible(timeout=WAIT_MS)
        return self

    def look(self, source: int, form: str) -> "Wizard":
        """Look up what another start of a source costs; wait until it stands there."""
        self.page.get_by_label(f"Start of source {source}").select_option(form)
        self.page.get_by_role("button", name="Look up what this costs").click()
        expect(self.page.get_by_role("heading", name="What choosing this costs")).to_be_visible(
            timeout=WAIT_MS
        )
        return self

    def accept_and_choose(self) -> "Wizard":
        """Tick that what was looked up is accepted, and choose it."""
        for box in self.page.locator('input[name="accept"]').all():
            box.check()
        self._press("Choose these positions, go to Patch code")
        return self._at("Patch code")

    def edit(self, path_end: str, text: str) -> "Wizard":
        """Replace the text of one file, save, and see the diff."""
        self.page.get_by_label(re.compile(f"Source of .*{re.escape(path_end)}$")).fill(text)
        self.page.get_by_role("button", name="Save and show the diff").click()
        return self

    def validate(self, expected: str = "Valid") -> "Wizard":
        """Save, have Spark validate, wait for its word."""
        self.page.get_by_role("button", name="Save and validate").click()
        panel = self.page.locator("#validation")
        expect(panel.get_by_text(expected, exact=True)).to_be_visible(timeout=WAIT_MS)
        return self

    def keep_code(self) -> "Wizard":
        self._press("Keep this code, go to Review")
        return self._at("Review")

    def seal(self) -> "Wizard":
        """Seal, and accept what that costs where it is asked; wait for the sealed plan."""
        sealed = self.page.get_by_role("heading", name="Sealed plan")
        costs = self.page.get_by_role("heading", name="Accept what it costs")
        if not costs.is_visible():
            self._press(re.compile("^Seal"))
        expect(sealed.or_(costs)).to_be_visible(timeout=WAIT_MS)
        if costs.is_visible():
            for box in self.page.locator('#accept input[name="accept"]').all():
                box.check()
            self.page.locator("#accept textarea").fill("It is what this test is for.")
            self._press("Accept and seal the plan")
        expect(sealed).to_be_visible(timeout=WAIT_MS)
        return self

    def run(self) -> "Wizard":
        """Start the plan and stay on the run page."""
        self._press(re.compile("^Run "))
        if "/confirm" in self.page.url:
            self.page.get_by_role("button", name=re.compile("^Empty 1 table")).click()
        return self._at("Run")

    def wait_until_run_ended(self) -> "Wizard":
        expect(self.page.locator("#bar").get_by_role("link", name="Go to Verify")).to_be_visible(
            timeout=WAIT_MS
        )
        self._press("Go to Verify")
        return self._at("Verify")

    def proven(self) -> "Wizard":
        """The verdict says so; nothing less counts."""
        expect(self.page.locator('[data-code="proven"]')).to_be_visible(timeout=WAIT_MS)
        return self
