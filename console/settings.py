"""Django settings of every Reprise process: web, worker, beat, commands, Pipelines API server."""

import contextlib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from console import env as environment
from console import logs

ROOT = Path(__file__).resolve().parent.parent
HOME = environment.home_folder()
ENV = environment.load_env()
with contextlib.suppress(OSError):  # bin/demo says it in one sentence; a read-only image may not need it
    HOME.mkdir(mode=0o700, parents=True, exist_ok=True)

SECRET_KEY = ENV.secret_key or "only-for-tests-and-checks-not-for-serving"
SECRET_KEY_FALLBACKS = [key.strip() for key in ENV.secret_key_fallbacks.split(",") if key.strip()]
DEBUG = ENV.debug
ALLOWED_HOSTS = [h.strip() for h in ENV.allowed_hosts.split(",") if h.strip()]
CSRF_TRUSTED_ORIGINS = [ENV.public_url]

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "csp",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.usersessions",
    "recovery",
    "recovery.server",
    "console",
]

MIDDLEWARE = [
    "console.middleware.RequestIdMiddleware",
    "console.pages.health.HealthMiddleware",
    "console.middleware.HeadersMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    # After whitenoise, whose files are compressed already. A page's length tells no secret that is beside what
    # someone else wrote (BREACH): Django adds a random length to each, and masks the CSRF token again each time.
    "django.middleware.gzip.GZipMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "console.middleware.TextMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "console.middleware.LastSeenMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "console.urls"
WSGI_APPLICATION = "console.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "console.context.shell_context",
            ],
            "libraries": {"reprise": "console.templatetags.reprise"},
        },
    }
]


def database_entry(url: str, sqlite_name: str) -> dict[str, Any]:
    """A Django database entry: PostgreSQL from a URL, else a SQLite file in REPRISE_HOME.

    What follows a `?` are libpq's own words (`sslmode`, `target_session_attrs` …); `host` may there be the
    folder of a Unix socket. SQLite runs in WAL with BEGIN IMMEDIATE, so that two writers wait for each other instead of
    failing half-way.
    """
    if not url:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": HOME / sqlite_name,
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": ENV.database_timeout,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;",
            },
        }
    parts = urlsplit(url)
    if parts.scheme not in ("postgres", "postgresql"):
        raise ValueError(f"Database URL has scheme {parts.scheme!r}; Reprise knows postgresql:// only.")
    options = dict(parse_qsl(parts.query))
    host = options.pop("host", "") or parts.hostname or ""
    options.setdefault("connect_timeout", "5")  # seconds: a server that is away is said, not waited for
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": host,
        "PORT": parts.port or "",
        "CONN_MAX_AGE": 60,
        "CONN_HEALTH_CHECKS": True,  # after the server was started again, the next request finds it
        "OPTIONS": options,
    }


DATABASES = {
    "default": database_entry(ENV.database_url, "reprise.sqlite3"),
    "pipelines": database_entry(ENV.pipelines_database_url, "pipelines.sqlite3"),
}
DATABASE_ROUTERS = ["recovery.server.router.ServerRouter"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATIC_ROOT = HOME / "static"
STATICFILES_DIRS = [ROOT / "console" / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

LOGIN_URL = "/sign-in"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/sign-in"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
CSRF_FAILURE_VIEW = "console.pages.errors.show_stale_form"
SESSION_COOKIE_AGE = 8 * 3600
REPRISE_IDLE_MINUTES = ENV.idle_minutes
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = ENV.secure
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = "Lax"
# __Host-: the browser takes it over HTTPS only, for this host alone, so that no neighbour can plant one.
SESSION_COOKIE_NAME = "__Host-sessionid" if ENV.secure else "sessionid"
CSRF_COOKIE_NAME = "__Host-csrftoken" if ENV.secure else "csrftoken"
SECURE_SSL_REDIRECT = ENV.secure
SECURE_HSTS_SECONDS = 31536000 if ENV.secure else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = ENV.secure
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
APPEND_SLASH = False

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "connect-src": ["'self'"],
        "font-src": ["'self'"],
        "form-action": ["'self'"],
        "base-uri": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
}

# People: accounts are made by an admin. Of django-allauth's pages only those that console/urls.py names are open.
ACCOUNT_ADAPTER = "console.signing.accounts.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_REAUTHENTICATION_TIMEOUT = 600
# Wrong codes of one person. What else is limited is counted without a lock, in recovery/people/limits.py.
ACCOUNT_RATE_LIMITS = {"login_failed": "10/5m/key"}
ALLAUTH_TRUSTED_PROXY_COUNT = ENV.trusted_proxies
MFA_ADAPTER = "console.signing.accounts.FactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_TOTP_ISSUER = "Reprise"
MFA_TOTP_TOLERANCE = 1
MFA_WEBAUTHN_USER_VERIFICATION = "required"
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = not ENV.secure  # http://localhost; browsers offer passkeys nowhere else
MFA_RECOVERY_CODES_SHOW_ONCE = True
SOCIALACCOUNT_ADAPTER = "console.signing.company.CompanyAdapter"
SOCIALACCOUNT_LOGIN_ON_GET = True  # a form would need the provider's address in the policy's form-action
SOCIALACCOUNT_EMAIL_AUTHENTICATION = False
SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"OAUTH_PKCE_ENABLED": True, "APPS": []}}
REPRISE_OIDC_NAME = ENV.oidc_name if ENV.oidc_issuer else ""
if ENV.oidc_issuer:
    SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"] = [
        {
            "provider_id": "company",
            "name": ENV.oidc_name,
            "client_id": ENV.oidc_client_id,
            "secret": ENV.oidc_client_secret,
            "settings": {"server_url": ENV.oidc_issuer},
        }
    ]

BROKER_SOCKET = HOME / "broker.sock"
CELERY_BROKER_URL = ENV.broker_url or f"redis+socket://{BROKER_SOCKET}?virtual_host=0"
REPRISE_CELERY = "console.celery"  # imported where something is sent
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = False  # the database owns the step; nothing is redelivered by itself
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 6 * 3600}
CELERY_TASK_DEFAULT_QUEUE = "control"
CELERY_TASK_ROUTES = {
    "recovery.workflow.tasks.run_step": {"queue": "steps"},
    "recovery.workflow.tasks.go_on_with_step": {"queue": "steps"},
    "recovery.workflow.tasks.probe_step": {"queue": "probes"},
    "recovery.workflow.tasks.stop_and_prove": {"queue": "probes"},
    "recovery.workflow.tasks.refresh_below": {"queue": "probes"},
    "recovery.workflow.tasks.count_below": {"queue": "probes"},
    "recovery.workflow.tasks.gather_facts": {"queue": "probes"},
    "recovery.workflow.tasks.look_positions": {"queue": "probes"},
    "recovery.workflow.tasks.validate_patch": {"queue": "probes"},
    "recovery.workflow.tasks.seal_plan": {"queue": "probes"},
    "recovery.audit.tasks.verify_daily": {"queue": "probes"},  # a minute for a million entries
    "recovery.audit.tasks.check_asked": {"queue": "probes"},
    "recovery.pipelines.tasks.look_at_flow": {"queue": "probes"},
    "recovery.pipelines.tasks.look_at_workspace": {"queue": "probes"},
    "recovery.pipelines.tasks.test_workspace": {"queue": "probes"},
    "recovery.workflow.tasks.learn_sources": {"queue": "probes"},
    "recovery.streams.tasks.ask_running": {"queue": "probes"},  # other people's commands, 20 s each at most
}
CELERY_BEAT_SCHEDULER = "console.life:Scheduler"
CELERY_BEAT_SCHEDULE = {
    "poll-inventory": {
        "task": "recovery.pipelines.tasks.poll_workspaces",
        "schedule": ENV.poll_seconds,
        "options": {"expires": ENV.poll_seconds * 2},
    },
    "test-workspaces": {
        "task": "recovery.pipelines.tasks.test_workspaces",
        "schedule": 3600.0,
        "options": {"expires": 3600.0},
    },
    "ask-running": {
        "task": "recovery.streams.tasks.ask_running",
        "schedule": 10.0,  # each stream every 30 s at most (streams.running)
        "options": {"expires": 10.0},
    },
    "look-at-inputs": {
        "task": "recovery.pipelines.tasks.look_at_inputs",
        "schedule": ENV.retention_seconds / 10,  # a tenth of the flows each time (pipelines.looks.ROUNDS)
        "options": {"expires": ENV.retention_seconds / 10},
    },
    "learn-sources": {
        "task": "recovery.workflow.tasks.learn_sources",
        "schedule": 60.0,  # at most one study each time
        "options": {"expires": 60.0},
    },
    "sign-audit": {
        "task": "recovery.audit.tasks.sign",
        "schedule": 60.0,
        "options": {"expires": 120.0},
    },
    "verify-audit": {  # every day: the task itself looks whether a day has passed, so that a restart loses none
        "task": "recovery.audit.tasks.verify_daily",
        "schedule": 900.0,
        "options": {"expires": 1800.0},
    },
    "reap-silent-steps": {
        "task": "recovery.workflow.tasks.reap",
        "schedule": ENV.heartbeat_seconds * 2,
        "options": {"expires": ENV.heartbeat_seconds * 4},
    },
    "sweep-looks": {
        "task": "recovery.workflow.tasks.sweep_looks",
        "schedule": 5.0,
        "options": {"expires": 10.0},
    },
    "restore-paused-jobs": {
        "task": "recovery.workflow.tasks.restore_holds",
        "schedule": 30.0,
        "options": {"expires": 60.0},
    },
    "sweep-notifications": {
        "task": "recovery.notify.tasks.sweep",
        "schedule": 10.0,
        "options": {"expires": 20.0},
    },
    "watch-queues": {
        "task": "recovery.health.tasks.watch_queues",
        "schedule": 30.0,
        "options": {"expires": 60.0},
    },
    "clear-sessions": {"task": "recovery.people.tasks.clear_sessions", "schedule": 6 * 3600.0},
    "prune-notifications": {"task": "recovery.notify.tasks.prune", "schedule": 6 * 3600.0},
    "expire-approvals": {
        "task": "recovery.approvals.tasks.expire",
        "schedule": ENV.poll_seconds * 2,
        "options": {"expires": ENV.poll_seconds * 4},
    },
}


def shared_cache(url: str, broker: str) -> dict[str, Any]:
    """Where limits are counted: the cache that is named, else the broker's server in the database after its own.

    Without either (tests, checks, a start without a broker) each process counts for itself.
    """
    location = url
    if not location and broker.startswith("redis+socket://"):
        location = f"unix://{urlsplit(broker).path}?db=1"
    elif not location and broker.startswith(("redis://", "rediss://")):
        parts = urlsplit(broker)
        number = parts.path.strip("/")
        location = parts._replace(path=f"/{int(number) + 1 if number.isdigit() else 1}").geturl()
    if not location:
        return {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    return {"BACKEND": "console.signing.cache.SharedCache", "LOCATION": location, "KEY_PREFIX": "reprise"}


CACHES = {"default": shared_cache(ENV.cache_url, ENV.broker_url)}

REPRISE_TOKEN_DAYS = ENV.token_days
REPRISE_POLL_SECONDS = ENV.poll_seconds
REPRISE_HEARTBEAT_SECONDS = ENV.heartbeat_seconds
REPRISE_SILENCE_SECONDS = ENV.silence_seconds
REPRISE_COUNT_BYTES = ENV.count_bytes
REPRISE_COMPARE_BYTES = ENV.compare_bytes
REPRISE_COMPARE_BYTES_OF = ENV.compare_bytes_by_flow
REPRISE_LOOKUP_BYTES = ENV.lookup_bytes
REPRISE_LOOKUP_BYTES_OF = ENV.lookup_bytes_by_flow
REPRISE_LOOKUP_SECONDS = ENV.lookup_seconds
REPRISE_GROUPING_BYTES = ENV.grouping_bytes
REPRISE_MEASURE_SECONDS = ENV.measure_seconds
REPRISE_ADOPT_MOST = ENV.adopt_most
REPRISE_OUTBOUND_ALLOW = ENV.outbound_allow
REPRISE_DATA_ROOTS = ENV.data_roots
REPRISE_PUBLIC_URL = ENV.public_url
REPRISE_SECURE = ENV.secure
REPRISE_METRICS_TOKEN = ENV.metrics_token
REPRISE_PIPELINES_PORT = ENV.pipelines_port
REPRISE_PIPELINES_TOKEN_FILE = ENV.pipelines_token_file
REPRISE_SPARK_PORT = ENV.spark_port
REPRISE_SPARK_MASTER = ENV.spark_master
REPRISE_SPARK_DRIVER_HOST = ENV.spark_driver_host
REPRISE_SPARK_CONF = ENV.spark_conf
REPRISE_SPARK_JARS = ENV.spark_jars
REPRISE_SPARK_REMOTES = ENV.spark_remotes
REPRISE_DATA_FOLDERS = ENV.data_folders
REPRISE_CONFINEMENT = ENV.confinement
REPRISE_ENVIRONMENTS = ENV.environment_names
REPRISE_HIDDEN_FOLDERS = ENV.folders_to_hide
REPRISE_CODE_VARIABLES = ENV.code_variable_names
REPRISE_HOME = HOME
FILE_UPLOAD_TEMP_DIR = (
    HOME if HOME.is_dir() else None
)  # in the machine's own, pipelines' code could change an upload
REPRISE_RETENTION_SECONDS = ENV.retention_seconds
REPRISE_RETENTION_WARN_HOURS = ENV.retention_warn_hours
REPRISE_KEEP_UPDATE_DAYS = ENV.keep_update_days
REPRISE_KEEP_UPDATES = ENV.keep_updates
REPRISE_STUDY_SECONDS = ENV.study_seconds
REPRISE_RETAG_HOURS = ENV.retag_hours
REPRISE_NOTIFY_HOURS = ENV.notify_hours
REPRISE_NOTIFY_CA = ENV.notify_ca

EMAIL_HOST = ENV.mail_host
EMAIL_PORT = ENV.mail_port
EMAIL_HOST_USER = ENV.mail_user
EMAIL_HOST_PASSWORD = ENV.mail_password
EMAIL_USE_TLS = ENV.mail_security == "starttls"
EMAIL_USE_SSL = ENV.mail_security == "tls"
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = ENV.mail_from
REPRISE_AUDIT_KEY = ENV.audit_key
REPRISE_AUDIT_FOLDER = Path(ENV.audit_folder).expanduser() if ENV.audit_folder else HOME
REPRISE_TRUSTED_PROXIES = ENV.trusted_proxies

LOGGING = logs.logging_config(ENV.log_format)
