"""Settings from the environment, read once, all errors at once.

Every variable is `REPRISE_<NAME>`; a secret may instead be given as `REPRISE_<NAME>_FILE`, the path
of a file that holds it. `$REPRISE_HOME/instance.env` (written by bin/demo, mode 0600) gives what the
environment does not, so that `bin/manage` speaks to the instance that runs in that home.
"""

import os
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from recovery.people.roles import ENVIRONMENTS

ROOT = Path(__file__).resolve().parent.parent


def home_folder() -> Path:
    """The folder of all run-time files: `REPRISE_HOME`, else `var/` beside manage.py."""
    return Path(os.environ.get("REPRISE_HOME") or ROOT / "var").expanduser().resolve()


def _split_list(listed: str) -> list[str]:
    """What a setting lists by commas."""
    return [part.strip() for part in listed.split(",") if part.strip()]


class SecretFiles(PydanticBaseSettingsSource):
    """`REPRISE_X_FILE` names a file whose stripped text is the value of `REPRISE_X`."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        path = os.environ.get(f"REPRISE_{field_name.upper()}_FILE")
        return (Path(path).read_text().strip() if path else None), field_name, False

    def __call__(self) -> dict[str, Any]:
        values = {}
        for name, field in self.settings_cls.model_fields.items():
            value, key, _ = self.get_field_value(field, name)
            if value is not None:
                values[key] = value
        return values


class Env(BaseSettings):
    """One attribute a variable; the description is the operator's guide."""

    model_config = SettingsConfigDict(env_prefix="REPRISE_", extra="ignore")

    secret_key: str = Field(default="", description="Signs sessions; required outside tests.")
    secret_key_fallbacks: str = Field(
        default="",
        description="Former secret keys, by commas; what they signed or encrypted stays readable.",
    )
    debug: bool = Field(default=False, description="Django's debug pages. Never in production.")
    allowed_hosts: str = Field(
        default="localhost,127.0.0.1", description="Host names that the console answers to, by commas."
    )
    public_url: str = Field(
        default="http://127.0.0.1:8000", description="Address of the console in links and messages."
    )
    secure: bool = Field(default=False, description="Served over HTTPS: secure cookies, HSTS.")
    outbound_allow: str = Field(
        default="",
        description="Non-public names, addresses and networks that the console may call, by commas: `pipelines`, "
        "`10.0.0.0/8`, `*.corp.example`.",
    )
    data_roots: str = Field(
        default="",
        description="Folders of this machine that hold pipelines' data, by commas. Console and pipelines' code "
        "open no other file here, except what Python, Java and Spark need. Empty: all but the "
        "console's own, home folders, keys and system folders. Set it in production.",
    )
    metrics_token: str = Field(
        default="",
        description="Bearer token of `/metrics`; empty: this machine only, without HTTPS.",
    )
    log_format: Literal["text", "json"] = Field(default="text", description="`text` for people, or `json`.")
    token_days: int = Field(
        default=365, ge=1, le=3650, description="Longest life of an access token, in days."
    )
    idle_minutes: int = Field(
        default=120,
        ge=5,
        le=480,
        description="A session ends after this time without an act; pages that poll do not count.",
    )
    cache_url: str = Field(
        default="",
        description="`redis://…` or `unix://…` of the shared cache; empty: the broker's server, next database.",
    )
    oidc_issuer: str = Field(
        default="",
        description="Address of your OpenID Connect provider (https; http on localhost only); empty: no company "
        "accounts.",
    )
    oidc_client_id: str = Field(default="", description="Reprise's id at that provider.")
    oidc_client_secret: str = Field(default="", description="Reprise's secret at that provider.")
    oidc_name: str = Field(default="company account", description="Name on the sign-in button.")
    admin_name: str = Field(
        default="admin", description="Name of the first administrator, whom `administrator` makes."
    )
    admin_password: str = Field(
        default="", description="Password of the first administrator; needed until there is one."
    )
    database_url: str = Field(
        default="", description="`postgresql://user:password@host/name`; empty: SQLite in REPRISE_HOME."
    )
    database_timeout: float = Field(default=20.0, description="Seconds to wait for a locked SQLite database.")
    pipelines_database_url: str = Field(
        default="", description="Database of the Pipelines API server; empty: its own SQLite file."
    )
    broker_url: str = Field(
        default="", description="`redis://…` or `redis+socket://…`; empty: the socket in REPRISE_HOME."
    )
    pipelines_port: int = Field(default=0, description="Port of the Pipelines API server; 0: any free one.")
    pipelines_token_file: str = Field(
        default="",
        description="File with the token of the bundled Pipelines API server; empty: `pipelines.token` in "
        "REPRISE_HOME.",
    )
    pipelines_url: str = Field(
        default="",
        description="Where the console reaches that server, if not where it listens.",
    )
    pipelines_environment: str = Field(
        default="production",
        description="Environment that Compose first gives that server's workspace.",
    )
    spark_port: int = Field(default=0, description="Port of Spark Connect; 0: any free one.")
    spark_master: str = Field(default="local[2]", description="Master of the Spark driver.")
    spark_driver_host: str = Field(
        default="127.0.0.1",
        description="Name or address by which executors on other machines reach the driver.",
    )
    spark_conf: str = Field(
        default="",
        description="Further settings of Spark, one `name value` a line. Put S3 keys into its `_FILE`.",
    )
    spark_jars: str = Field(
        default="",
        description="Folder of further Java archives for Spark, such as the Kafka and Delta connectors.",
    )
    spark_remotes: str = Field(
        default="",
        description="Other Sparks that the Pipelines API server answers questions about, one a line: `name "
        "sc://host:port/;token=…`. They hold tokens, so use the `_FILE`.",
    )
    confinement: Literal["required", "container", "optional"] = Field(
        default="required",
        description="How pipelines' code and commands of adopted streams must be confined; tried at each start of"
        " the Pipelines API server. `required`: they reach nothing of the console. `container`: no "
        "file, environment or process of the console; for a container without secrets. `optional`: as"
        " far as the machine allows; the log names what is missing.",
    )
    code_variables: str = Field(
        default="",
        description="Variables of the Pipelines API server that pipelines' code and Spark's driver get too, by "
        "commas. They get few others; a pipeline's own are in its `spark_env_vars`.",
    )
    environments: str = Field(
        default="",
        description="Environments whose pipelines this Pipelines API server runs, by commas; it refuses others. A"
        " pipeline without the tag `environment` belongs to the first. Empty: all, in one Spark "
        "driver.",
    )
    hidden_folders: str = Field(
        default="",
        description="Folders that pipelines' code of this server must not see, by commas: homes and data of other"
        " environments' servers on this machine. They must exist at its start.",
    )
    own_drivers: str = Field(
        default="",
        description="Environments for which `bin/demo` starts a Pipelines API server with its own Spark driver (1"
        " GB or more each), by commas: `production`, or `production=/srv/production` with its data "
        "folder, hidden from the others. The demo's own server runs the rest.",
    )
    heartbeat_seconds: float = Field(default=2.0, description="How often a running step sends a heartbeat.")
    silence_seconds: float = Field(
        default=20.0, description="A running step that is silent for this long becomes unknown."
    )
    count_bytes: int = Field(default=1_073_741_824, description="A forecast does not count larger inputs.")
    compare_bytes: int = Field(
        default=1_073_741_824,
        description="A proof also compares a flow's whole input with its whole table, if neither is larger.",
    )
    compare_bytes_of: str = Field(
        default="",
        description="That limit for single flows, by commas: `catalog.schema.flow=bytes`; 0: never.",
    )
    lookup_bytes: int = Field(
        default=68_719_476_736,
        description="Plan and proof look for keys of new rows in a table up to this size.",
    )
    lookup_bytes_of: str = Field(
        default="",
        description="That limit for single flows, by commas: `catalog.schema.flow=bytes`; 0: never.",
    )
    lookup_seconds: float = Field(
        default=90.0,
        gt=0,
        description="After this time such a search ends, and its answer is not known.",
    )
    grouping_bytes: int = Field(
        default=134_217_728,
        description="A proof counts every key of a table up to this size, so it also finds old repeats.",
    )
    measure_seconds: float = Field(
        default=600.0, gt=0, description="How long Spark may compare rows for a proof."
    )
    adopt_most: int = Field(
        default=1000,
        ge=1,
        description="How many streams one call of `adopt --roots` adopts; the next call goes on.",
    )
    poll_seconds: float = Field(
        default=5.0, description="How often the inventory asks each workspace, at most."
    )
    retention_seconds: float = Field(
        default=300.0,
        ge=10,
        description="How often Reprise checks how long unread input can still be read.",
    )
    retention_warn_hours: float = Field(
        default=24.0,
        ge=0,
        description="Warns when a flow does not run and its unread input can be read for less than this.",
    )
    keep_update_days: float = Field(
        default=90.0,
        ge=1,
        description="How many days the Pipelines API server keeps updates with their events and source copies.",
    )
    keep_updates: int = Field(
        default=50,
        ge=1,
        description="Newest updates of each pipeline that it keeps, whatever their age.",
    )
    study_seconds: float = Field(
        default=3600.0,
        ge=0,
        description="How often Reprise checks a flow's code for changes. It studies changed code on Spark, one "
        "flow at a time, while no update of its pipeline runs. 0: only recoveries study code.",
    )
    mail_host: str = Field(default="", description="SMTP server for notifications; empty: no mail.")
    mail_port: int = Field(default=587, description="Port of the SMTP server.")
    mail_user: str = Field(default="", description="Name at the SMTP server; empty: no sign-in there.")
    mail_password: str = Field(default="", description="Password at the SMTP server.")
    mail_from: str = Field(default="", description="Sender of mail, `name@host`.")
    mail_security: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="`starttls`, `tls` or `none`."
    )
    notify_hours: float = Field(default=24.0, description="How long Reprise retries a notification.")
    retag_hours: float = Field(
        default=24.0,
        ge=1,
        le=720,
        description="How long a pipeline that is tagged for an environment with weaker rules stays under the "
        "stricter ones.",
    )
    notify_ca: str = Field(
        default="", description="File of certificates to trust for webhooks; empty: those of the public web."
    )

    audit_key: str = Field(
        default="",
        description="Ed25519 private key (PEM) that signs the audit log; empty: `audit.key` in REPRISE_HOME.",
    )
    audit_folder: str = Field(
        default="",
        description="Folder for the audit log's signed anchors and public keys; empty: REPRISE_HOME.",
    )
    trusted_proxies: int = Field(
        default=0,
        ge=0,
        description="How many of your own proxies append to X-Forwarded-For in front of the console.",
    )

    @field_validator("compare_bytes_of", "lookup_bytes_of")
    @classmethod
    def _limits_are_numbers(cls, value: str) -> str:
        for part_text in filter(None, (part.strip() for part in value.split(","))):
            flow, equals, size = part_text.rpartition("=")
            if not (flow and equals and size.strip().isdigit()):
                raise ValueError(f"{part_text} is not catalog.schema.flow=bytes")
        return value

    @property
    def compare_bytes_by_flow(self) -> dict[str, int]:
        """`compare_bytes_of` by flow."""
        return _by_flow(self.compare_bytes_of)

    @property
    def lookup_bytes_by_flow(self) -> dict[str, int]:
        """`lookup_bytes_of` by flow."""
        return _by_flow(self.lookup_bytes_of)

    @property
    def data_folders(self) -> tuple[Path, ...]:
        """`data_roots` as folders."""
        return tuple(Path(root).expanduser() for root in _split_list(self.data_roots.replace("\n", ",")))

    @property
    def environment_names(self) -> tuple[str, ...]:
        """`environments` as names."""
        return tuple(_split_list(self.environments))

    @property
    def folders_to_hide(self) -> tuple[Path, ...]:
        """`hidden_folders` as folders."""
        return tuple(Path(folder).expanduser() for folder in _split_list(self.hidden_folders))

    @property
    def code_variable_names(self) -> tuple[str, ...]:
        """`code_variables` as names."""
        return tuple(_split_list(self.code_variables))

    @field_validator("environments")
    @classmethod
    def _environments_are_known(cls, value: str) -> str:
        if odd := set(_split_list(value)) - set(ENVIRONMENTS):
            raise ValueError(f"{', '.join(sorted(odd))} is none of {', '.join(ENVIRONMENTS)}")
        return value

    @field_validator("oidc_issuer")
    @classmethod
    def _issuer_is_private(cls, issuer: str) -> str:
        """Whoever reads or changes what goes to the provider signs in as anybody: HTTPS, but on this machine."""
        parts = urlsplit(issuer)
        here = parts.scheme == "http" and parts.hostname in ("localhost", "127.0.0.1", "::1")
        if issuer and not here and (parts.scheme != "https" or not parts.hostname):
            raise ValueError("the provider's address is https://…; http:// only on localhost")
        return issuer

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, SecretFiles(settings_cls), dotenv_settings


def _by_flow(value: str) -> dict[str, int]:
    """`catalog.schema.flow=bytes`, by commas."""
    parts = (part.rpartition("=") for part in value.split(",") if part.strip())
    return {flow.strip(): int(size) for flow, _, size in parts}


def load_env() -> Env:
    """Read the environment. Raises pydantic's ValidationError naming every wrong variable."""
    return Env(_env_file=home_folder() / "instance.env")  # type: ignore[call-arg]
