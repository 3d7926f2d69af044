"""What a channel may be: checked before it is saved, and recorded in the audit log without its secrets."""

from collections.abc import Mapping
from typing import Any, Final

from recovery.errors import WrongUse
from recovery.models import Channel
from recovery.models.notice import CHANNEL_KINDS
from recovery.notify import mailing, posting, references
from recovery.notify.events import SUBSCRIBED

ENVIRONMENTS: Final = ("development", "staging", "production")


def check_channel(name: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a channel from what a person gave. Raises WrongUse, Refused (an address that is not allowed)."""
    name, kind = " ".join(name.split()), str(wanted.get("kind") or "")
    if not name or len(name) > 80 or not name.isprintable():
        raise WrongUse("A channel needs a name of 1 to 80 characters.")
    if kind not in CHANNEL_KINDS:
        raise WrongUse(f"A channel is one of: {', '.join(CHANNEL_KINDS)}.")
    address = _check_address(kind, str(wanted.get("address") or "").strip())
    secret = str(wanted.get("secret_ref") or "").strip() if kind == "webhook" else ""
    if kind == "webhook":
        references.check_reference(secret)
    return {
        "name": name,
        "kind": kind,
        "address": address,
        "secret_ref": secret,
        "environments": _check_choice(wanted.get("environments"), ENVIRONMENTS, "environment"),
        "events": _check_choice(wanted.get("events"), SUBSCRIBED, "event"),
    }


def _check_address(kind: str, address: str) -> str:
    if len(address) > 500:
        raise WrongUse("An address has at most 500 characters.")
    if kind == "mail":
        return mailing.check_address(address)
    if references.is_reference(address):
        return references.check_reference(address)
    if kind == "chat":
        raise WrongUse(
            "The address of a chat's webhook is its password, so it is not kept here: put it into a variable or a "
            f"file of the worker and name that. {references.RULE}."
        )
    return posting.check_url(address)


def _check_choice(given: Any, known: tuple[str, ...], noun: str) -> list[str]:
    """Those of `known` that were chosen, in its order. Raises WrongUse for none, and for one that is not known."""
    chosen = set(given or ())
    if not chosen or not chosen <= set(known):
        raise WrongUse(f"Choose at least one {noun}, of: {', '.join(known)}.")
    return [choice for choice in known if choice in chosen]


def is_url(channel: Channel) -> bool:
    """Is its address a URL, whose path may be a password, rather than a mail address or a reference?"""
    return channel.kind != "mail" and not references.is_reference(channel.address)


def shown_address(channel: Channel) -> str:
    """An address for pages and the audit log: a mail address or a reference as it is, of a URL its host."""
    return posting.shown_address(channel.address) if is_url(channel) else channel.address


def describe_channel(channel: Channel) -> dict[str, Any]:
    """A channel for the audit log; references name where a secret is, and are none."""
    return {
        "name": channel.name,
        "kind": channel.kind,
        "address": shown_address(channel),
        "secret_ref": channel.secret_ref,
        "environments": channel.environments,
        "events": channel.events,
        "on": channel.on,
    }
