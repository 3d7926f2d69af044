"""A workspace as the audit log, `workspace list` and the API hold it: where its secrets are, never what they are."""

from collections.abc import Mapping

from recovery.contracts.value import Flag, Value


class DescribedWorkspace(Value):
    """What people have said of a workspace."""

    name: str
    """Its name."""
    url: str
    """The address of its Pipelines API; "": it has none."""
    environment: str
    """The environment of its pipelines without a tag."""
    token: str
    """Where its token is, as `file:/path` or `env:NAME`, or that it is kept encrypted."""
    questions_url: str
    """The address of its questions service; "": it has none."""
    questions_token: str
    """Where the token of that is; "": it takes the workspace's."""
    questions_spark: str
    """The name by which that service knows its Spark; "": the service's own."""
    on: Flag
    """Whether it is polled."""
    roots: tuple[str, ...]
    """Below which places its checkpoints and tables are read; (): all that the instance may read."""
    kind: str
    """`pipelines` or `streams`."""
    event_logs: tuple[str, ...]
    """Folders of event logs; of plain streams alone."""


class LoggedWorkspace(DescribedWorkspace):
    """The same for the audit log."""

    real_roots: Mapping[str, str]
    """Where each root led when it was named."""
