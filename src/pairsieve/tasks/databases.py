"""Reader of database tables: a SQLAlchemy URL and a query."""

from __future__ import annotations

import re

from pairsieve.errors import InputError
from pairsieve.tasks.frames import memory_table
from pairsieve.tasks.reading import Table

_DIALECT = re.compile(r"(sqlite|postgresql|postgres|mysql|mariadb|mssql|oracle|duckdb|snowflake)(\+\w+)?:/+")


def is_database(place: str) -> bool:
    """Whether a URL names a database, not a file."""
    return _DIALECT.match(place) is not None


def read_query(url: str, query: str | None) -> Table:
    """The rows of a query, in the order in which the database gives them; rows are numbered from 1."""
    import sqlalchemy as sa

    if not query:
        what, remedy = "a database needs a query", 'Pass `query`, as "SELECT * FROM customers ORDER BY id"'
        raise InputError(what, where=_shown(url), remedy=remedy)
    try:
        engine = sa.create_engine(url)
    except (sa.exc.ArgumentError, ModuleNotFoundError) as error:
        remedy = "Write it as SQLAlchemy does, and install the database's own package"
        raise InputError(
            "the database cannot be opened", where=_shown(url), why=str(error), remedy=remedy
        ) from error
    try:
        with engine.connect() as connection:
            found = connection.execute(sa.text(query))
            names, rows = list(found.keys()), found.fetchall()
    except sa.exc.SQLAlchemyError as error:
        why = str(getattr(error, "orig", None) or error).splitlines()[0]
        what, remedy = "the query failed", "Check the query, the address and the rights"
        raise InputError(what, where=_shown(url), why=why, remedy=remedy) from error
    finally:
        engine.dispose()
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        remedy = "Name them apart in the query with AS"
        raise InputError(f"2 columns are called {twice!r}", where=_shown(url), remedy=remedy)
    if not rows:
        raise InputError("the query gives no rows", where=_shown(url), remedy="Check the query")
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    return memory_table(_shown(url), columns, range(1, len(rows) + 1))


def _shown(url: str) -> str:
    """A URL without its user, password and query, for errors and notes; a password may hold "/" and "@"."""
    return re.sub(r"^([\w+]+:)//(?=[^/])\S*@", r"\1//", url).partition("?")[0]
