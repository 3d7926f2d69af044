"""Somebody who looks at the console all the time: what its pages answered, while parts of the instance died."""

import threading
from collections import Counter
from collections.abc import Callable

import requests

from tests.stack import Console, Stack

PAGES = ("/", "/recoveries", "/audit")
LOOK = 1.0  # seconds between two pages
PATIENCE = 30  # seconds for an answer: a frozen part is waited for


class Visitor:
    """Asks for one page after the other on its own thread; `answers` counts them by status, "none" among them."""

    def __init__(self, stack: Stack, log: Callable[[str], None]) -> None:
        self.stack, self.log = stack, log
        self.answers: Counter[str] = Counter()
        self.console: Console | None = None
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, name="visitor")
        self.thread.start()

    def end(self) -> None:
        self.ended.set()
        self.thread.join()

    def _run(self) -> None:
        turn = 0
        while not self.ended.wait(LOOK):
            page = PAGES[turn % len(PAGES)]
            turn += 1
            answer = self._ask(page)
            self.answers[answer] += 1
            if answer.startswith("5"):
                self.log(f"{page} answered {answer}")

    def _ask(self, page: str) -> str:
        """The status, or "none". Without a session somebody signs in, which may fail in the same ways."""
        try:
            if self.console is None:
                console = self.stack.console("auditor")
                self.console = console
            answer = self.console.get(page, timeout=PATIENCE, allow_redirects=False)
            if answer.is_redirect:  # the session is gone
                self.console = None
            return str(answer.status_code)
        except (requests.RequestException, OSError, AssertionError):
            return "none"


def answers(stack: Stack) -> str:
    """Empty when the console may be sent people, else what it said."""
    try:
        answer = requests.get(f"{stack.demo['console_url']}/readyz", timeout=PATIENCE)
    except (requests.RequestException, OSError) as problem:
        return str(problem)
    return "" if answer.status_code == requests.codes.ok else answer.text
