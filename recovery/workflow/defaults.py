"""What a plan says of variables and settings that have no value where the code is studied. Pure."""

from collections.abc import Iterator

from recovery.checkpoints.report import Finding, Severity
from recovery.spark.api import Study


def list_defaults_taken(study: Study, *, is_plain: bool) -> Iterator[Finding]:
    """One finding where the code took defaults: a run that has other values writes other rows."""
    names = [*study.unset_variables, *study.unset_settings]
    if not names:
        return
    says = (
        f"The code asks for {', '.join(names)}, which {'has' if len(names) == 1 else 'have'} no value here, and takes "
        "a default. A run whose shell, scheduler or cluster sets another value writes other rows than the forecast."
    )
    ways = {
        "variables": ("`env NAME=VALUE` in the start command", "`spark_env_vars` of the pipeline"),
        "settings": ("`--conf NAME=VALUE` in the start command", "the pipeline's configuration"),
    }
    asked = {"variables": study.unset_variables, "settings": study.unset_settings}
    places = " and ".join(ways[kind][0 if is_plain else 1] for kind, of in asked.items() if of)
    yield Finding(
        "DEFAULTS_TAKEN", Severity.WARNING, says, f"If a run sets one, name it by {places}, then plan again."
    )
