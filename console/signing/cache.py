"""The shared cache, which may be away without taking the sign-in with it."""

import logging
from collections.abc import Callable
from typing import Any

from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache
from redis.exceptions import RedisError

log = logging.getLogger(__name__)


class SharedCache(RedisCache):
    """Redis or Valkey; while it does not answer, each process counts for itself.

    What is here are limits. Refusing everyone while the broker is away would lock out those who come to
    repair it; counting nothing would open a door to guessing. So the process's own memory takes over.
    """

    def __init__(self, server: Any, params: dict[str, Any]) -> None:
        super().__init__(server, params)
        self._own = LocMemCache("stand-in", params)

    def _try_either(self, name: str, *args: Any, **kwargs: Any) -> Any:
        shared: Callable[..., Any] = getattr(super(), name)
        try:
            return shared(*args, **kwargs)
        except (RedisError, OSError) as error:
            log.warning("The shared cache does not answer (%s); this process counts for itself.", error)
            return getattr(self._own, name)(*args, **kwargs)

    def add(self, *args: Any, **kwargs: Any) -> Any:
        return self._try_either("add", *args, **kwargs)

    def get(self, *args: Any, **kwargs: Any) -> Any:
        return self._try_either("get", *args, **kwargs)

    def set(self, *args: Any, **kwargs: Any) -> Any:
        return self._try_either("set", *args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> Any:
        return self._try_either("delete", *args, **kwargs)

    def incr(self, *args: Any, **kwargs: Any) -> Any:
        return self._try_either("incr", *args, **kwargs)
