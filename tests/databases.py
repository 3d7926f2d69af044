"""Which database the tests use: SQLite, or the PostgreSQL server that REPRISE_TEST_DATABASE_URL names.

bin/test starts that server (console/supervisor/postgres.py) and runs the unit tests a second time with the
variable set. Then those of them that use no database are left out: they would only say the same again.
"""

import functools
import os
import re
import secrets
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import psycopg
import pytest
from psycopg import sql

from console.supervisor.bootstrap import ROOT
from devtools import lanes

VARIABLE = "REPRISE_TEST_DATABASE_URL"
UNIT = Path(__file__).parent / "unit"
#: A module with a test of the database has one of these words; the last three are fixtures that use it.
WORDS = re.compile(r"django_db|database|\bdb\b|transactional|signed_log|kept_outside|five_entries")


def use(url: str) -> None:
    """Point Django at `url` (nothing: SQLite), before it reads its settings.

    Both databases lie on the one server. Django makes `test_<name>` of each, one for every process of xdist.
    """
    if url:
        os.environ[VARIABLE] = url
        os.environ["REPRISE_DATABASE_URL"] = url
        os.environ["REPRISE_PIPELINES_DATABASE_URL"] = named(url, "pipelines")


def named(url: str, name: str) -> str:
    """The URL of another database of the same server."""
    return urlsplit(url)._replace(path=f"/{name}").geturl()


def uses_database(item: pytest.Item) -> bool:
    """Whether a test asks for a database: by mark, or by a fixture that does."""
    fixtures = set(getattr(item, "fixturenames", ()))
    marked = any(item.get_closest_marker(name) for name in ("django_db", "database"))
    return marked or bool(fixtures & {"db", "transactional_db"})


def mentions_database(module: Path) -> bool:
    """Whether a test of this module may use a database, as far as its text shows."""
    return WORDS.search(module.read_text()) is not None


@functools.cache
def is_unit(module: Path) -> bool:
    """Whether a test module is one of the unit tests."""
    return UNIT in module.parents


def is_left_out(module: Path) -> bool:
    """Whether no test of this file uses a database, so that a run on PostgreSQL need not read it."""
    if not os.environ.get(VARIABLE) or not is_unit(module) or not module.match("test_*.py"):
        return False
    return not mentions_database(module)


@functools.cache  # a module has up to a thousand tests
def is_asked_of_postgresql_alone(module: Path) -> bool:
    """Whether the everyday lane asks the database tests of this module of PostgreSQL, and not of SQLite too."""
    elsewhere = {ROOT / path for path in (*lanes.NOT_ON_POSTGRESQL, *lanes.ON_BOTH)}
    return is_unit(module) and elsewhere.isdisjoint((module, *module.parents))


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With PostgreSQL, leave out the unit tests that use no database; on SQLite, where told to, those that the everyday
    lane asks of PostgreSQL."""
    if os.environ.get(VARIABLE):
        left_out = {item for item in items if is_unit(item.path) and not uses_database(item)}
    elif config.getoption(lanes.LEAVE_OUT):
        left_out = {item for item in items if is_asked_of_postgresql_alone(item.path) and uses_database(item)}
    else:
        return
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def fresh(url: str) -> dict[str, str]:
    """Two new, empty databases on the server, as the variables of an instance; nothing where there is no server."""
    if not url:
        return {}
    names = {
        f"REPRISE_{part}DATABASE_URL": f"{part.lower()}{secrets.token_hex(6)}" for part in ("", "PIPELINES_")
    }
    with administrator(url) as connection:
        for name in names.values():
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return {variable: named(url, name) for variable, name in names.items()}


def replace(url: str, *, template: str) -> None:
    """Make the database that `url` names a copy of another one, which no connection uses; what it held is gone."""
    name = sql.Identifier(urlsplit(url).path.lstrip("/"))
    with administrator(url) as connection:
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(name))
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(name, sql.Identifier(template)))


def drop(urls: Iterable[str]) -> None:
    """Remove these databases, whoever is still connected."""
    for url in urls:
        with administrator(url) as connection:
            name = urlsplit(url).path.lstrip("/")
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def administrator(url: str, *, own: bool = False) -> psycopg.Connection[tuple[object, ...]]:
    """A connection to the server's database in which databases are made; with `own` to the one that `url` names."""
    parts = urlsplit(url if own else named(url, "postgres"))
    host = dict(parse_qsl(parts.query)).get("host") or parts.hostname
    return psycopg.connect(
        host=host, port=parts.port, user=parts.username, password=parts.password,
        dbname=parts.path.lstrip("/"), autocommit=True,
    )  # fmt: skip
