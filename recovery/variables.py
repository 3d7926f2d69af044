"""Environment variables of a pipeline's code: `clusters[].spark_env_vars` of its settings, the API's own word for them.

They are there for definition files, in updates and where their code is studied. A `default` entry counts for every
update, `updates` for updates alone and before it; `maintenance` is none of theirs.
"""

from collections.abc import Mapping
from typing import Any, Final

ORDER: Final = ("default", "updates")


def of_settings(spec: Mapping[str, Any]) -> dict[str, str]:
    """Name to value, from a pipeline's settings; empty where they name none. What is no text is left out. Pure."""
    clusters = [one for one in spec.get("clusters") or [] if isinstance(one, Mapping)]
    found: dict[str, str] = {}
    for label in ORDER:
        for cluster in clusters:
            if (cluster.get("label") or "default") == label:
                named = cluster.get("spark_env_vars")
                found |= (
                    {k: v for k, v in named.items() if isinstance(v, str)}
                    if isinstance(named, Mapping)
                    else {}
                )
    return found
