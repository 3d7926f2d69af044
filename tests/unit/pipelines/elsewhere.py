"""Another worker, with a database session of its own: within one session an advisory lock is free to be had again."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from threading import Event

from django.db import connections


@contextmanager
def held_elsewhere(only: Callable[[int], AbstractContextManager[bool]], workspace_id: int) -> Iterator[None]:
    """A lock of a workspace is held by somebody else while this lasts."""
    holding, over = Event(), Event()

    def hold() -> bool:
        with only(workspace_id) as mine:
            holding.set()
            over.wait(60)
        connections.close_all()
        return mine

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(hold)
        holding.wait(60)
        yield
        over.set()
        assert answer.result()
