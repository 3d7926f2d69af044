"""Where passkeys can be used at all, and what to make of a browser's answer."""

import ipaddress

from django.forms import Form
from django.http import HttpRequest


def can_use_passkeys(request: HttpRequest) -> bool:
    """Browsers offer passkeys over HTTPS, or at http://localhost; and never for a bare IP address."""
    host = request.get_host().rsplit(":", 1)[0] if "]" not in request.get_host() else "::1"
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return request.is_secure() or host == "localhost"
    return False


def is_good_credential(form: Form) -> bool:
    """Is the form's credential a good one? What is not even shaped like one is a wrong one, no fault of ours.

    The library lets the errors of its own parsing through (a missing `rawId` is a KeyError).
    """
    try:
        return form.is_valid()
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
