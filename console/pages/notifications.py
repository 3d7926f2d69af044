"""Settings > Notifications: who receives what, whether it arrives, and a way to try it. For admins."""

from collections.abc import Callable
from functools import partial
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone

from console.forms import channel as form
from console.middleware import PageRequest
from console.pages.base import is_unchanged, no_news, page, refusal_of, render_page
from console.presenters import notifying
from recovery.errors import RepriseError, WrongUse
from recovery.models import Channel
from recovery.notify import actions, mailing, selectors
from recovery.notify.channels import ENVIRONMENTS, is_url, shown_address
from recovery.notify.events import SUBSCRIBED
from recovery.notify.references import RULE
from recovery.numbers import whole
from recovery.people.roles import Actor, Right

SAID = {
    "test": "A test message is on its way. See the result below.",
    "on": "The channel is on.",
    "off": "The channel is off: nothing is sent to it.",
    "retry": "It is sent again now, under the same id.",
}


@page(Right.MANAGE, methods=("GET", "POST"))
def show_channels(request: PageRequest, by: Actor) -> HttpResponse:
    """Channels and last deliveries. POST `test`, `on`, `off` (a channel) or `retry` (a delivery) acts on one."""
    refusal = None
    if request.method == "POST":
        act = next((name for name in SAID if name in request.POST), "")
        refusal = refusal_of(_action_of(act, request.POST.get(act, ""), by))
        if refusal is None:
            messages.success(request, SAID[act])
            return redirect("notifications")
    context = _overview_context()
    if request.GET.get("part") == "list":
        fresh = is_unchanged(request, context["version"])
        return no_news() if fresh else render(request, "settings/_notifications.html", context)
    return render_page(request, "settings/notifications.html", context, refusal=refusal)


def _action_of(act: str, given: str, by: Actor) -> Callable[[], object]:
    """The action behind a button. Raises WrongUse for what no button sends."""
    number = whole(given)
    if not act or number is None:
        raise WrongUse("The page sent nothing that can be done here. Reload it, then try again.")
    if act == "retry":
        return partial(actions.retry_now, delivery_id=number, by=by)
    if act == "test":
        return partial(actions.send_test, channel_id=number, by=by)
    return partial(actions.switch_channel, channel_id=number, on=act == "on", by=by)


def _overview_context() -> dict[str, Any]:
    now = timezone.now()
    channels = [notifying.channel_row(c, now) for c in selectors.list_channels()]
    deliveries = [notifying.delivery_row(d) for d in selectors.newest_deliveries()]
    return {
        "section": "settings",
        "channels": channels,
        "deliveries": deliveries,
        "mail": mailing.is_mail_configured(),
        "figures": selectors.outbox_status(now),
        "version": notifying.list_version(channels, deliveries, now),
    }


@page(Right.MANAGE, methods=("GET", "POST"))
def add_channel(request: PageRequest, by: Actor) -> HttpResponse:
    """A new channel."""
    return _channel_form(
        request, None, partial(actions.create_channel, by=by), "was added. Send a test to see it arrive."
    )


@page(Right.MANAGE, methods=("GET", "POST"))
def edit_channel(request: PageRequest, by: Actor, channel_id: int) -> HttpResponse:
    """Change a channel; POST `remove` removes it."""
    channel = selectors.channel_or_404(channel_id)
    if "remove" in request.POST:
        refusal = refusal_of(partial(actions.remove_channel, channel_id=channel_id, by=by))
        if refusal is None:
            messages.success(request, f"Channel {channel.name} was removed.")
            return redirect("notifications")
        return _show_channel(request, channel, form.channel_values(channel), refusal)
    save = partial(actions.change_channel, channel_id=channel_id, by=by)
    return _channel_form(request, channel, save, "was changed.")


def _channel_form(
    request: PageRequest, channel: Channel | None, save: Callable[..., object], said: str
) -> HttpResponse:
    if request.method != "POST":
        return _show_channel(request, channel, form.channel_values(channel), None)
    given = form.read_channel(request.POST)
    refusal = refusal_of(partial(save, **given))
    if refusal is None:
        messages.success(request, f"Channel {given['name']} {said}")
        return redirect("notifications")
    return _show_channel(request, channel, given, refusal)


def _show_channel(
    request: PageRequest, channel: Channel | None, given: dict[str, Any], refusal: RepriseError | None
) -> HttpResponse:
    context = {
        "section": "settings",
        "channel": channel,
        "given": given,
        "kinds": notifying.KINDS,
        "environments": notifying.list_choices(ENVIRONMENTS, given["environments"]),
        "events": notifying.list_choices(SUBSCRIBED, given["events"]),
        "rule": RULE,
        "kept": shown_address(channel) if channel and is_url(channel) else "",
    }
    return render_page(
        request, "settings/channel.html", context, refusal=refusal, status=422 if refusal else None
    )
