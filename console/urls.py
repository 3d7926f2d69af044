"""Addresses of the console. Every page can be pasted into an incident channel and gone on with by another."""

from allauth.socialaccount.providers.openid_connect import views as company
from django.conf import settings as config
from django.urls import URLPattern, URLResolver, path

from console.api import urls as api
from console.pages import (
    account,
    approvals,
    audit,
    checkpoint,
    components,
    environments,
    error_text,
    factors,
    flow,
    forgotten,
    glass,
    inventory,
    notifications,
    owner,
    people,
    pipeline,
    positions,
    reauthenticate,
    recoveries,
    report,
    run,
    search,
    session,
    wizard,
    workspaces,
)

urlpatterns: list[URLPattern | URLResolver] = [
    path("", inventory.flows, name="inventory"),
    path("polled", inventory.polled, name="polled"),
    path("sign-in", session.sign_in, name="sign-in"),
    path("sign-out", session.sign_out, name="sign-out"),
    path("sign-in/code", session.second_step, name="sign-in-code"),
    path("sign-in/passkey", session.passkey, name="sign-in-passkey"),
    path("reauthenticate", reauthenticate.reauthenticate, name="reauthenticate"),
    path("invitation/<str:secret>", people.invitation, name="invitation"),
    path("forgotten", forgotten.ask, name="forgotten"),
    path("theme", session.theme, name="theme"),
    path("account", account.overview, name="account"),
    path("account/password", factors.password, name="password"),
    path("account/authenticator-app", factors.totp, name="totp"),
    path("account/passkey", factors.passkey, name="passkey"),
    path("account/recovery-codes", factors.recovery_codes, name="recovery-codes"),
    path("pipelines/<int:pipeline_pk>", pipeline.overview, name="pipeline"),
    path("flows/<int:flow_id>", flow.overview, name="flow"),
    path("flows/<int:flow_id>/checkpoint", checkpoint.checkpoint, name="flow-checkpoint"),
    path("flows/<int:flow_id>/events", flow.event_log, name="flow-events"),
    path("flows/<int:flow_id>/code", flow.code, name="flow-code"),
    path("flows/<int:flow_id>/recoveries", flow.history, name="flow-recoveries"),
    path("search", search.results, name="search"),
    path("diagnose", error_text.diagnose_pasted_text, name="error-text"),
    path("recoveries", recoveries.listing, name="recoveries"),
    path("recoveries/<str:label>", recoveries.go_on, name="recovery"),
    path("recoveries/<int:recovery_id>/diagnose", wizard.diagnose, name="diagnose"),
    path("recoveries/<int:recovery_id>/stop", wizard.stop, name="stop"),
    path("recoveries/<int:recovery_id>/offset", wizard.offset, name="offset"),
    path("recoveries/<int:recovery_id>/positions", positions.positions, name="positions"),
    path("recoveries/<int:recovery_id>/patch", wizard.patch, name="patch"),
    path("recoveries/<int:recovery_id>/review", wizard.review, name="review"),
    path("recoveries/<int:recovery_id>/run", run.run, name="run"),
    path("recoveries/<int:recovery_id>/run/confirm", run.confirm, name="confirm"),
    path("recoveries/<int:recovery_id>/run/statement", run.statement, name="statement"),
    path("recoveries/<int:recovery_id>/run/evidence.json", run.evidence, name="evidence"),
    path("recoveries/<int:recovery_id>/break-glass", glass.break_glass, name="break-glass"),
    path("recoveries/<int:recovery_id>/log", run.raw_log, name="log"),
    path("recoveries/<int:recovery_id>/verify", run.verify, name="verify"),
    path("recoveries/<int:recovery_id>/report", report.overview, name="report"),
    path("recoveries/<int:recovery_id>/report.json", report.as_json, name="report-json"),
    path("recoveries/<int:recovery_id>/rollback", run.rollback, name="rollback"),
    path("recoveries/<int:recovery_id>/owner", owner.owner, name="owner"),
    path("recoveries/<int:recovery_id>/skip", run.skip, name="skip"),
    path("recoveries/<int:recovery_id>/cancel", run.cancel, name="cancel"),
    *api.ROUTES,
    path("approvals", approvals.listing, name="approvals"),
    path("approvals/<int:request_id>", approvals.approval, name="approval"),
    path("audit", audit.log, name="audit"),
    path("audit/chain", audit.chain, name="audit-chain"),
    path("audit/export", audit.export, name="audit-export"),
    path("audit/review", audit.review, name="audit-review"),
    path("audit/recovery/<str:label>", audit.story, name="audit-story"),
    path("audit/recovery/<str:label>/evidence.zip", audit.pack, name="audit-pack"),
    path("audit/<int:seq>", audit.entry, name="audit-entry"),
    path("settings", workspaces.overview, name="settings"),
    path("settings/workspaces/new", workspaces.add, name="workspace-add"),
    path("settings/workspaces/<str:workspace>", workspaces.edit, name="workspace-edit"),
    path("settings/notifications", notifications.overview, name="notifications"),
    path("settings/notifications/new", notifications.add, name="notification-add"),
    path("settings/notifications/<int:channel_id>", notifications.edit, name="notification-edit"),
    path("settings/environments", environments.environments, name="environments"),
    path("settings/environments/<str:name>", environments.environment, name="environment"),
    path("settings/people", people.listing, name="people"),
    path("settings/people/<int:person_id>", people.person, name="person"),
    path("_components", components.gallery, name="components"),
]

# The names by which django-allauth finds our pages; every other page of its own is closed.
urlpatterns += [
    path("polled", inventory.polled, name="polled"),
    path("sign-in", session.sign_in, name="account_login"),
    path("sign-in/code", session.second_step, name="mfa_authenticate"),
]
COMPANY: list[URLPattern | URLResolver] = [
    path("sign-in/company/<str:provider_id>", company.login, name="openid_connect_login"),
    path("sign-in/company/<str:provider_id>/back", company.callback, name="openid_connect_callback"),
]
if config.REPRISE_OIDC_NAME:
    urlpatterns += COMPANY

handler400 = "console.pages.errors.wrong"
handler403 = "console.pages.errors.denied"
handler404 = "console.pages.errors.missing"
handler500 = "console.pages.errors.fault"
