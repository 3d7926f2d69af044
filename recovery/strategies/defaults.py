"""What a plan says of variables, settings and files that are not there where the code is studied. Pure."""

from collections.abc import Iterator

from recovery.checkpoints.report import Finding, Severity
from recovery.contracts.names import Strategy
from recovery.strategies.base import Facts
from recovery.strategies.common import code_that_runs

OF_PLAIN = {
    "variables": "`env NAME=VALUE` in the start command",
    "settings": "`--conf NAME=VALUE` in the start command",
    "files": "`--argument FILE`, or a name in the code",
}
OF_PIPELINE = {
    "variables": "`spark_env_vars` of the pipeline",
    "settings": "the pipeline's configuration",
    "files": "the pipeline's root folder",
}
"""Where a value is given, by what the code asks for."""


def list_defaults_taken(facts: Facts, strategy: Strategy) -> Iterator[Finding]:
    """One finding where the code that the strategy runs may take defaults."""
    code = code_that_runs(facts, strategy)
    if code is None or not code.absent.names:
        return
    names = code.absent.names
    says = (
        f"The code asks for {', '.join(names)}, which {'is' if len(names) == 1 else 'are'} not there where it is "
        "studied, and may take a default. A run that finds a value may write other rows than the forecast."
    )
    ways = OF_PLAIN if facts.is_plain else OF_PIPELINE
    places = " and ".join(way for kind, way in ways.items() if getattr(code.absent, kind))
    do = f"If a run has one, give it by {places}, then plan again."
    yield Finding("DEFAULTS_TAKEN", Severity.WARNING, says, do)
