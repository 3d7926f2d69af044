"""Who may do what: every page and every command, by the right that it asks for. Tests walk all of it.

A new page or command without a row here fails `test_truth_table.py`. What roles hold which right is written
out once more below, not read from the product, so that a change of it has to be made in two places.
"""

from typing import Final

ROLES: Final = ("viewer", "responder", "approver", "auditor", "admin", "none")

HOLDERS: Final[dict[str, frozenset[str]]] = {
    "VIEW": frozenset({"viewer", "responder", "approver", "auditor", "admin"}),
    "RECOVER": frozenset({"responder", "admin"}),
    "RESET": frozenset({"responder", "admin"}),
    "APPROVE": frozenset({"approver"}),
    "BREAK_GLASS": frozenset({"responder", "admin"}),
    "READ_AUDIT": frozenset({"responder", "approver", "auditor", "admin"}),
    "EXPORT_AUDIT": frozenset({"auditor", "admin"}),
    "REVIEW_AUDIT": frozenset({"approver", "auditor", "admin"}),
    "MANAGE": frozenset({"admin"}),
    "OWN": frozenset(ROLES),  # everybody with an account, about themselves
}

# route -> the right that seeing it asks for. "<…>" is filled in with an object of the environment at hand.
GET: Final[dict[str, str]] = {
    "": "VIEW",
    "account": "OWN",
    "account/password": "OWN",
    "account/authenticator-app": "OWN",
    "account/passkey": "OWN",
    "account/recovery-codes": "OWN",
    "reauthenticate": "OWN",
    "polled": "VIEW",
    "pipelines/<int:pipeline_pk>": "VIEW",
    "pipelines/<int:pipeline_pk>/together": "VIEW",
    "flows/<int:flow_id>": "VIEW",
    "flows/<int:flow_id>/checkpoint": "VIEW",
    "flows/<int:flow_id>/events": "VIEW",
    "flows/<int:flow_id>/code": "VIEW",
    "flows/<int:flow_id>/recoveries": "VIEW",
    "flows/<int:flow_id>/stream": "RECOVER",
    "streams/new": "RECOVER",
    "search": "VIEW",
    "diagnose": "VIEW",
    "approvals": "VIEW",
    "approvals/<int:request_id>": "VIEW",
    "recoveries": "VIEW",
    "recoveries/<str:label>": "VIEW",
    "recoveries/<str:label>/<path:part>": "VIEW",
    "recoveries/<int:recovery_id>/diagnose": "VIEW",
    "recoveries/<int:recovery_id>/stop": "VIEW",
    "recoveries/<int:recovery_id>/offset": "VIEW",
    "recoveries/<int:recovery_id>/positions": "VIEW",
    "recoveries/<int:recovery_id>/patch": "VIEW",
    "recoveries/<int:recovery_id>/review": "VIEW",
    "recoveries/<int:recovery_id>/run": "VIEW",
    "recoveries/<int:recovery_id>/run/confirm": "RECOVER",
    "recoveries/<int:recovery_id>/run/statement": "RECOVER",
    "recoveries/<int:recovery_id>/run/evidence.json": "VIEW",
    "recoveries/<int:recovery_id>/break-glass": "BREAK_GLASS",
    "recoveries/<int:recovery_id>/log": "VIEW",
    "recoveries/<int:recovery_id>/verify": "VIEW",
    "recoveries/<int:recovery_id>/report": "VIEW",
    "recoveries/<int:recovery_id>/report.json": "VIEW",
    "recoveries/<int:recovery_id>/rollback": "RECOVER",
    "recoveries/<int:recovery_id>/cancel": "RECOVER",
    "recoveries/<int:recovery_id>/skip": "RECOVER",
    "recoveries/<int:recovery_id>/owner": "RECOVER",
    "audit": "READ_AUDIT",
    "audit/<int:seq>": "READ_AUDIT",
    "audit/chain": "READ_AUDIT",
    "audit/export": "EXPORT_AUDIT",
    "audit/review": "READ_AUDIT",
    "audit/recovery/<str:label>": "READ_AUDIT",
    "audit/recovery/<str:label>/evidence.zip": "EXPORT_AUDIT",
    "settings": "MANAGE",
    "settings/workspaces/new": "MANAGE",
    "settings/workspaces/<str:workspace>": "MANAGE",
    "settings/environments": "MANAGE",
    "settings/environments/<str:name>": "MANAGE",
    "settings/notifications": "MANAGE",
    "settings/notifications/new": "MANAGE",
    "settings/notifications/<int:channel_id>": "MANAGE",
    "settings/people": "MANAGE",
    "settings/people/<int:person_id>": "MANAGE",
    "_components": "MANAGE",
}

# route -> (what is sent, the right that it asks for)
POST: Final[dict[str, tuple[dict[str, str], str]]] = {
    "account": ({"name": "mine"}, "OWN"),
    "account/password": ({}, "OWN"),
    "account/authenticator-app": ({"code": "1"}, "OWN"),
    "account/passkey": ({}, "OWN"),
    "account/recovery-codes": ({}, "OWN"),
    "reauthenticate": ({"password": "wrong"}, "OWN"),
    "diagnose": ({"text": "x"}, "VIEW"),
    "flows/<int:flow_id>": ({}, "RECOVER"),
    "pipelines/<int:pipeline_pk>/together": ({"act": "open"}, "RECOVER"),
    "flows/<int:flow_id>/stream": ({"name": "x"}, "RECOVER"),
    "streams/new": ({}, "RECOVER"),
    "recoveries/<int:recovery_id>/stop": ({}, "RECOVER"),
    "recoveries/<int:recovery_id>/diagnose": ({"meant": "yes"}, "RECOVER"),
    "recoveries/<int:recovery_id>/offset": ({"act": "facts"}, "RECOVER"),
    "recoveries/<int:recovery_id>/positions": ({"act": "committed"}, "RECOVER"),
    "recoveries/<int:recovery_id>/patch": ({}, "RECOVER"),
    "recoveries/<int:recovery_id>/review": ({}, "RECOVER"),
    "recoveries/<int:recovery_id>/run": ({}, "RESET"),
    "recoveries/<int:recovery_id>/run/statement": ({"reason": "x"}, "RECOVER"),
    "recoveries/<int:recovery_id>/verify": ({"act": "further"}, "RECOVER"),
    "recoveries/<int:recovery_id>/rollback": ({"reason": "x"}, "RECOVER"),
    "recoveries/<int:recovery_id>/owner": ({"reason": "x"}, "RECOVER"),
    "recoveries/<int:recovery_id>/skip": ({"reason": "x"}, "RESET"),
    "recoveries/<int:recovery_id>/cancel": ({"reason": "x"}, "RECOVER"),
    "recoveries/<int:recovery_id>/break-glass": ({"reason": "x"}, "BREAK_GLASS"),
    "approvals/<int:request_id>": ({"vote": "approve"}, "APPROVE"),
    "audit/<int:seq>": ({"note": "x"}, "REVIEW_AUDIT"),
    "audit/chain": ({}, "READ_AUDIT"),
    "settings": ({"off": "x"}, "MANAGE"),
    "settings/workspaces/new": ({}, "MANAGE"),
    "settings/workspaces/<str:workspace>": ({}, "MANAGE"),
    "settings/environments/<str:name>": ({}, "MANAGE"),
    "settings/notifications": ({"act": "on"}, "MANAGE"),
    "settings/notifications/new": ({}, "MANAGE"),
    "settings/notifications/<int:channel_id>": ({}, "MANAGE"),
    "settings/people": ({"name": "new", "role": "viewer"}, "MANAGE"),
    "settings/people/<int:person_id>": ({"act": "off"}, "MANAGE"),
}

ANYONE: Final = {
    "sign-in",
    "sign-in/code",
    "sign-in/passkey",
    "sign-out",
    "theme",
    "invitation/<str:secret>",
    "forgotten",
}
"""Routes that need no account. Each has tests of its own in tests/unit/pages."""

# route -> method -> (what is sent, the right that it asks for); by a token alone
API: Final[dict[str, dict[str, tuple[dict[str, object], str]]]] = {
    "api/v1/openapi.json": {"GET": ({}, "VIEW")},
    "api/v1/recoveries": {"POST": ({"pipeline": "customers"}, "RECOVER")},
    "api/v1/recoveries/<str:label>": {"GET": ({}, "VIEW")},
    "api/v1/recoveries/<str:label>/report": {"GET": ({}, "VIEW")},
    "api/v1/recoveries/<str:label>/positions": {"GET": ({}, "VIEW"), "POST": ({}, "RECOVER")},
    "api/v1/recoveries/<str:label>/ways": {"GET": ({}, "VIEW"), "POST": ({}, "RECOVER")},
    "api/v1/recoveries/<str:label>/plan": {"POST": ({}, "RECOVER")},
    "api/v1/joint-plans": {"POST": ({"recoveries": ["R-1"]}, "RECOVER")},
    "api/v1/joint-plans/<str:joint>": {"GET": ({}, "VIEW")},
    **{
        f"{planned}/{name}": {"POST": sent}
        for planned in ("api/v1/recoveries/<str:label>", "api/v1/joint-plans/<str:joint>")
        for name, sent in (
            ("request", ({"plan_hash": "x"}, "RECOVER")),
            ("votes", ({"choice": "approve", "plan_hash": "x", "reason": "x"}, "APPROVE")),
            ("start", ({"plan_hash": "x"}, "RECOVER")),
            ("rollback", ({"plan_hash": "x", "reason": "x"}, "RECOVER")),
            ("cancel", ({"reason": "x"}, "RECOVER")),
        )
    },
    "api/v1/refreshes": {"POST": ({"pipeline": "customers"}, "RECOVER")},
    "api/v1/refreshes/<str:ticket>": {"GET": ({}, "VIEW")},
    "api/v1/streams": {"GET": ({}, "VIEW"), "POST": ({"checkpoint": "/nowhere"}, "RECOVER")},
    "api/v1/streams/preview": {"POST": ({"checkpoint": "/nowhere"}, "RECOVER")},
    "api/v1/workspaces": {"GET": ({}, "MANAGE"), "POST": ({}, "MANAGE")},
    "api/v1/workspaces/<str:workspace>": {
        "GET": ({}, "MANAGE"),
        "PATCH": ({}, "MANAGE"),
        "DELETE": ({}, "MANAGE"),
    },
    "api/v1/workspaces/<str:workspace>/test": {"POST": ({}, "MANAGE")},
}

# command -> (its arguments, the right that it asks for; None: whoever may start programs here)
COMMANDS: Final[dict[str, tuple[tuple[str, ...], str | None]]] = {
    "adopt": (("/nowhere",), "RECOVER"),
    "administrator": (("somebody",), None),
    "approve": (("{asked}", "--reason", "x"), "APPROVE"),
    "audit": (("verify",), "READ_AUDIT"),
    "backups": (("list",), "VIEW"),
    "cancel": (("{recovery}",), "RECOVER"),
    "diagnose": (("{pipeline}",), "VIEW"),
    "execute": (("{recovery}",), "RESET"),
    "flows": ((), "VIEW"),
    "handover": (("{recovery}", "--reason", "x"), "RECOVER"),
    "inspect": (("/nowhere",), None),
    "pause": (("{recovery}",), "RECOVER"),
    "plan": (("{pipeline}",), "RECOVER"),
    "recover": (("{pipeline}",), "RECOVER"),
    "refresh": (("{pipeline}",), "RECOVER"),
    "reject": (("{asked}", "--reason", "x"), "APPROVE"),
    "request": (("{recovery}",), "RECOVER"),
    "rollback": (("{recovery}",), "RECOVER"),
    "serve_pipelines": ((), None),
    "skip": (("{recovery}", "--reason", "x"), "RESET"),
    "stop": (("{pipeline}",), "RECOVER"),
    "token": (("--name", "t"), "VIEW"),
    "workspace": (("list",), "MANAGE"),
}

BOUND: Final = frozenset({"VIEW", "RECOVER", "RESET", "APPROVE", "BREAK_GLASS"})
"""Rights that are held by environment."""
