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
        description="Former secret keys, by commas: what they signed or encrypted can still be read. For a rotation.",
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
        description="Names, addresses and networks, by commas, that the console may call although they are not "
        "public: workspaces and webhooks of the own network (`pipelines`, `10.0.0.0/8`, `*.corp.example`).",
    )
    data_roots: str = Field(
        default="",
        description="Folders of this machine, by commas, that hold pipelines' data: neither the console nor pipelines' "
        "code opens any other file of it, but what Python, Java and Spark need. Empty: all but the console's own, "
        "people's home folders, keys, and the machine's. Set it in production.",
    )
    metrics_token: str = Field(
        default="",
        description="Bearer token of `/metrics`; empty: read from this machine only, without HTTPS.",
    )
    log_format: Literal["text", "json"] = Field(
        default="text", description="How logs are written: lines for people, or `json`."
    )
    token_days: int = Field(
        default=365, ge=1, le=3650, description="The longest that an access token is good, in days."
    )
    idle_minutes: int = Field(
        default=120,
        ge=5,
        le=480,
        description="A session ends when nothing was done in it for so many minutes; pages that poll do nothing.",
    )
    cache_url: str = Field(
        default="",
        description="`redis://…` or `unix://…` of the shared cache; empty: the broker's server, next database.",
    )
    oidc_issuer: str = Field(
        default="",
        description="Address of the company's OpenID Connect provider (https; http on localhost alone); empty: no "
        "company accounts.",
    )
    oidc_client_id: str = Field(default="", description="Reprise's id at that provider.")
    oidc_client_secret: str = Field(default="", description="Reprise's secret at that provider.")
    oidc_name: str = Field(default="company account", description="What the sign-in button calls it.")
    admin_name: str = Field(
        default="admin", description="Name of the first administrator, whom `administrator` makes."
    )
    admin_password: str = Field(
        default="", description="Password of the first administrator; needed until there is one."
    )
    database_url: str = Field(
        default="", description="`postgresql://user:password@host/name`; empty: SQLite in REPRISE_HOME."
    )
    database_timeout: float = Field(
        default=20.0, description="Seconds to wait for a locked SQLite database before saying so."
    )
    pipelines_database_url: str = Field(
        default="", description="Database of the Pipelines API server; empty: its own SQLite file."
    )
    broker_url: str = Field(
        default="", description="`redis://…` or `redis+socket://…`; empty: the socket in REPRISE_HOME."
    )
    pipelines_port: int = Field(default=0, description="Port of the Pipelines API server, 0 = any free one.")
    pipelines_token_file: str = Field(
        default="",
        description="File with the token of the own Pipelines API server; empty: `pipelines.token` in REPRISE_HOME.",
    )
    pipelines_url: str = Field(
        default="",
        description="Where the console reaches the Pipelines API server, if not where that one listens.",
    )
    pipelines_environment: str = Field(
        default="production",
        description="Environment of that server's workspace where Compose sets it up; change it later in the console.",
    )
    spark_port: int = Field(default=0, description="Port of Spark Connect, 0 = any free one.")
    spark_master: str = Field(default="local[2]", description="Master of the Spark driver.")
    spark_driver_host: str = Field(
        default="127.0.0.1",
        description="Name or address by which executors on other machines reach the driver.",
    )
    spark_conf: str = Field(
        default="",
        description="Further settings of Spark, one `name value` a line; keys of S3 belong into its `_FILE`.",
    )
    spark_jars: str = Field(
        default="",
        description="Folder of Java archives that Spark also loads: connectors of Kafka and Delta.",
    )
    spark_remotes: str = Field(
        default="",
        description="Other Sparks that the Pipelines API server answers questions about, one a line: `name "
        "sc://host:port/;token=…`; they hold tokens, so give the `_FILE`.",
    )
    confinement: Literal["required", "container", "optional"] = Field(
        default="required",
        description="What must hold pipelines' code before the Pipelines API server starts, by a trial at each start. "
        "`required`: it reaches nothing of the console. `container`: no file, environment or process of the console; "
        "for a container that holds no secret. `optional`: as much as the machine allows; what is missing is said. "
        "Commands of adopted streams are held by the same rule.",
    )
    code_variables: str = Field(
        default="",
        description="Names, by commas, of environment variables of the Pipelines API server that pipelines' code and "
        "Spark's driver get too. They get few others; a pipeline's own are in its `spark_env_vars`.",
    )
    environments: str = Field(
        default="",
        description="Environments, by commas, whose pipelines this Pipelines API server runs; it refuses others. A "
        "pipeline whose tag `environment` is missing is of the first one. Empty: it runs all, in one Spark driver.",
    )
    hidden_folders: str = Field(
        default="",
        description="Folders, by commas, that pipelines' code of this Pipelines API server must not see: homes and "
        "data of the servers of other environments on the same machine. They must be there at its start.",
    )
    own_drivers: str = Field(
        default="",
        description="Environments, by commas, for which `bin/demo` starts a Pipelines API server with a Spark driver "
        "of its own (1 GB of memory or more each): `production`, or `production=/srv/production` with the folder "
        "of its data, which the others do not see. The demo's own server runs the rest.",
    )
    heartbeat_seconds: float = Field(default=2.0, description="How often a running step sends a heartbeat.")
    silence_seconds: float = Field(
        default=20.0, description="A running step silent for this long becomes unknown."
    )
    count_bytes: int = Field(
        default=1_073_741_824, description="Inputs larger than this are not counted for a forecast."
    )
    compare_bytes: int = Field(
        default=1_073_741_824,
        description="A proof compares a flow's whole input with its whole table too, where both are no larger.",
    )
    compare_bytes_of: str = Field(
        default="",
        description="Other limits for single flows, by commas: `catalog.schema.flow=bytes`; 0: never.",
    )
    lookup_bytes: int = Field(
        default=68_719_476_736,
        description="A plan and a proof look for keys of new rows in a table of no more bytes, after its statistics.",
    )
    lookup_bytes_of: str = Field(
        default="",
        description="Other limits for single flows, by commas: `catalog.schema.flow=bytes`; 0: never.",
    )
    lookup_seconds: float = Field(
        default=90.0,
        gt=0,
        description="Such a look ends after this time; what it was to tell is then not known.",
    )
    grouping_bytes: int = Field(
        default=134_217_728,
        description="A proof counts every key of a table of no more bytes, so that it tells repeats of long ago.",
    )
    measure_seconds: float = Field(
        default=600.0, gt=0, description="How long Spark may take to compare the rows for a proof."
    )
    adopt_most: int = Field(
        default=1000,
        ge=1,
        description="So many plain streams `adopt --roots` adopts at once; the next call goes on with the rest.",
    )
    poll_seconds: float = Field(
        default=5.0, description="How often the inventory asks each workspace, at most."
    )
    retention_seconds: float = Field(
        default=300.0,
        ge=10,
        description="How often it is looked up how long a flow's unread input can still be read.",
    )
    retention_warn_hours: float = Field(
        default=24.0,
        ge=0,
        description="Warns when unread input of a flow that does not run can be read for less than this.",
    )
    keep_update_days: float = Field(
        default=90.0,
        ge=1,
        description="For how many days the Pipelines API server keeps updates with their events and source copies.",
    )
    keep_updates: int = Field(
        default=50,
        ge=1,
        description="So many newest updates of each pipeline are kept there, whatever their age.",
    )
    study_seconds: float = Field(
        default=3600.0,
        ge=0,
        description="How often a flow's code is looked at, to learn where it reads from; what changed is studied on "
        "Spark, one flow at a time, while no update of its pipeline runs. 0: only recoveries study code.",
    )
    mail_host: str = Field(default="", description="SMTP server for notifications; empty: no mail is sent.")
    mail_port: int = Field(default=587, description="Port of the SMTP server.")
    mail_user: str = Field(default="", description="Name at the SMTP server; empty: no sign-in there.")
    mail_password: str = Field(default="", description="Password at the SMTP server.")
    mail_from: str = Field(default="", description="Sender of mail, `name@host`.")
    mail_security: Literal["starttls", "tls", "none"] = Field(
        default="starttls", description="How the SMTP server is spoken to: `starttls`, `tls` or `none`."
    )
    notify_hours: float = Field(
        default=24.0, description="For how long a notification is tried again before it is given up."
    )
    retag_hours: float = Field(
        default=24.0,
        ge=1,
        le=720,
        description="How long a pipeline whose tag names an environment with weaker rules stays under the "
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
        description="Proxies of your own in front of the console: how far X-Forwarded-For is believed.",
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
