"""Addresses of the console. Every page can be pasted into an incident channel and gone on with by another."""

from allauth.socialaccount.providers.openid_connect import views as company
from django.conf import settings as config
from django.urls import URLPattern, URLResolver, path

from console.api import urls as api
from console.pages import (
    account,
    approvals,
    audit,
    break_glass,
    checkpoint,
    components,
    environments,
    error_text,
    factors,
    flow,
    forgotten,
    inventory,
    notifications,
    owner,
    people,
    pipeline,
    positions,
    reauthenticate,
    recover_together,
    recoveries,
    report,
    run,
    search,
    session,
    streams,
    wizard,
    workspaces,
)

urlpatterns: list[URLPattern | URLResolver] = [
    path("", inventory.list_flows, name="inventory"),
    path("polled", inventory.show_freshness, name="polled"),
    path("sign-in", session.sign_in, name="sign-in"),
    path("sign-out", session.sign_out, name="sign-out"),
    path("sign-in/code", session.second_step, name="sign-in-code"),
    path("sign-in/passkey", session.sign_in_by_passkey, name="sign-in-passkey"),
    path("reauthenticate", reauthenticate.reauthenticate, name="reauthenticate"),
    path("invitation/<str:secret>", people.accept_invitation, name="invitation"),
    path("forgotten", forgotten.ask_for_reset, name="forgotten"),
    path("theme", session.choose_theme, name="theme"),
    path("account", account.show_account, name="account"),
    path("account/password", factors.change_password, name="password"),
    path("account/authenticator-app", factors.set_up_totp, name="totp"),
    path("account/passkey", factors.set_up_passkey, name="passkey"),
    path("account/recovery-codes", factors.recovery_codes, name="recovery-codes"),
    path("pipelines/<int:pipeline_pk>", pipeline.show_pipeline, name="pipeline"),
    path("pipelines/<int:pipeline_pk>/together", recover_together.recover_together, name="recover-together"),
    path("flows/<int:flow_id>", flow.show_overview, name="flow"),
    path("flows/<int:flow_id>/checkpoint", checkpoint.show_checkpoint, name="flow-checkpoint"),
    path("flows/<int:flow_id>/events", flow.event_log, name="flow-events"),
    path("flows/<int:flow_id>/code", flow.show_code, name="flow-code"),
    path("flows/<int:flow_id>/recoveries", flow.show_history, name="flow-recoveries"),
    path("flows/<int:flow_id>/stream", streams.edit_stream, name="stream-edit"),
    path("streams/new", streams.add_stream, name="stream-add"),
    path("search", search.show_results, name="search"),
    path("diagnose", error_text.diagnose_pasted_text, name="error-text"),
    path("recoveries", recoveries.list_recoveries, name="recoveries"),
    path("recoveries/<str:label>", recoveries.go_on, name="recovery"),
    path("recoveries/<int:recovery_id>/diagnose", wizard.diagnose_step, name="diagnose"),
    path("recoveries/<int:recovery_id>/stop", wizard.stop_step, name="stop"),
    path("recoveries/<int:recovery_id>/offset", wizard.offset_step, name="offset"),
    path("recoveries/<int:recovery_id>/positions", positions.choose_positions, name="positions"),
    path("recoveries/<int:recovery_id>/patch", wizard.patch_step, name="patch"),
    path("recoveries/<int:recovery_id>/review", wizard.review_step, name="review"),
    path("recoveries/<int:recovery_id>/run", run.show_run, name="run"),
    path("recoveries/<int:recovery_id>/run/confirm", run.confirm_run, name="confirm"),
    path("recoveries/<int:recovery_id>/run/statement", run.record_statement, name="statement"),
    path("recoveries/<int:recovery_id>/run/evidence.json", run.show_evidence, name="evidence"),
    path("recoveries/<int:recovery_id>/break-glass", break_glass.break_glass, name="break-glass"),
    path("recoveries/<int:recovery_id>/log", run.raw_log, name="log"),
    path("recoveries/<int:recovery_id>/verify", run.show_verification, name="verify"),
    path("recoveries/<int:recovery_id>/report", report.show_report, name="report"),
    path("recoveries/<int:recovery_id>/report.json", report.as_json, name="report-json"),
    path("recoveries/<int:recovery_id>/rollback", run.confirm_rollback, name="rollback"),
    path("recoveries/<int:recovery_id>/owner", owner.change_owner, name="owner"),
    path("recoveries/<int:recovery_id>/skip", run.skip_step, name="skip"),
    path("recoveries/<int:recovery_id>/cancel", run.cancel_recovery, name="cancel"),
    path("recoveries/<str:label>/<path:part>", recoveries.go_to_page, name="recovery-page"),
    *api.ROUTES,
    path("approvals", approvals.list_approvals, name="approvals"),
    path("approvals/<int:request_id>", approvals.show_approval, name="approval"),
    path("audit", audit.show_log, name="audit"),
    path("audit/chain", audit.show_chain, name="audit-chain"),
    path("audit/export", audit.export_list, name="audit-export"),
    path("audit/review", audit.show_review_queue, name="audit-review"),
    path("audit/recovery/<str:label>", audit.show_story, name="audit-story"),
    path("audit/recovery/<str:label>/evidence.zip", audit.download_evidence, name="audit-pack"),
    path("audit/<int:seq>", audit.show_entry, name="audit-entry"),
    path("settings", workspaces.show_workspaces, name="settings"),
    path("settings/workspaces/new", workspaces.add_workspace, name="workspace-add"),
    path("settings/workspaces/<str:workspace>", workspaces.edit_workspace, name="workspace-edit"),
    path("settings/notifications", notifications.show_channels, name="notifications"),
    path("settings/notifications/new", notifications.add_channel, name="notification-add"),
    path("settings/notifications/<int:channel_id>", notifications.edit_channel, name="notification-edit"),
    path("settings/environments", environments.list_environments, name="environments"),
    path("settings/environments/<str:name>", environments.edit_environment, name="environment"),
    path("settings/people", people.list_people, name="people"),
    path("settings/people/<int:person_id>", people.show_person, name="person"),
    path("_components", components.show_gallery, name="components"),
]

# The names by which django-allauth finds our pages; every other page of its own is closed.
urlpatterns += [
    path("polled", inventory.show_freshness, name="polled"),
    path("sign-in", session.sign_in, name="account_login"),
    path("sign-in/code", session.second_step, name="mfa_authenticate"),
]
COMPANY: list[URLPattern | URLResolver] = [
    path("sign-in/company/<str:provider_id>", company.login, name="openid_connect_login"),
    path("sign-in/company/<str:provider_id>/back", company.callback, name="openid_connect_callback"),
]
if config.REPRISE_OIDC_NAME:
    urlpatterns += COMPANY

handler400 = "console.pages.errors.show_wrong_request"
handler403 = "console.pages.errors.show_denied"
handler404 = "console.pages.errors.show_missing"
handler500 = "console.pages.errors.show_fault"
