"""What a plan says of variables, settings and files that are not there where the code is studied. Pure."""

from collections.abc import Iterator

from recovery.checkpoints.report import Finding, Severity
from recovery.spark.api import Study


def list_defaults_taken(study: Study, *, is_plain: bool) -> Iterator[Finding]:
    """One finding where the code took defaults: a run that has other values writes other rows."""
    names = [*study.unset_variables, *study.unset_settings, *study.absent_files]
    if not names:
        return
    says = (
        f"The code asks for {', '.join(names)}, which {'is' if len(names) == 1 else 'are'} not there where it is "
        "studied, and may take a default. A run that finds a value may write other rows than the forecast."
    )
    ways = {
        "variables": ("`env NAME=VALUE` in the start command", "`spark_env_vars` of the pipeline"),
        "settings": ("`--conf NAME=VALUE` in the start command", "the pipeline's configuration"),
        "files": ("`--argument FILE`, or a name in the code", "the pipeline's root folder"),
    }
    asked = {
        "variables": study.unset_variables,
        "settings": study.unset_settings,
        "files": study.absent_files,
    }
    places = " and ".join(ways[kind][0 if is_plain else 1] for kind, of in asked.items() if of)
    yield Finding(
        "DEFAULTS_TAKEN", Severity.WARNING, says, f"If a run has one, give it by {places}, then plan again."
    )
