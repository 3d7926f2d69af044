"""Asks an API whatever its own OpenAPI document allows, and what it does not, and holds the answers against it."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]
Named = Mapping[str, object]


def operations(app: Any, path: str, token: str) -> Iterator[Any]:
    """Every operation of the document that a WSGI application publishes."""
    # This client reads no compressed answer.
    headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "identity"}
    document = schemathesis.openapi.from_wsgi(path, app, headers=headers)
    for found in document.get_all_operations():
        yield found.ok()


def hold(
    operation: Any, token: str, named: Callable[[], Named], examples: int, *, always: bool = False
) -> int:
    """Ask one operation; fails with what does not agree. How often it was asked.

    `examples`: at most so many of each kind of data: good, and such as the document forbids.

    `named`: real values for what a question names, so that not every one is about nothing; given to two questions of
    three, or `always`. Fails where any answer is not as the document says, or is an error of the server's own.
    """
    asked = 0

    def ask(case: Any) -> None:
        nonlocal asked
        asked += 1
        if always or asked % 3:
            for held in (case.path_parameters, case.query, case.body):
                if isinstance(held, dict):
                    held.update({name: value for name, value in named().items() if name in held})
        case.headers = {**(case.headers or {}), "Authorization": f"Bearer {token}"}
        case.headers["Accept-Encoding"] = "identity"  # this client reads no compressed answer
        answer = case.call_and_validate(checks=CHECKS)
        assert answer.status_code not in (401, 429), case.path

    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        bounded = settings(
            max_examples=examples,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        try:
            seed(20_261_122)(bounded(given(operation.as_strategy(generation_mode=mode))(ask)))()
        except Unsatisfiable:  # what takes nothing can be asked nothing wrong
            assert mode is GenerationMode.NEGATIVE
    return asked
