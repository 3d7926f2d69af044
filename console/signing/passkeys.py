"""Where passkeys can be used at all."""

import ipaddress

from django.http import HttpRequest


def possible(request: HttpRequest) -> bool:
    """Browsers offer passkeys over HTTPS, or at http://localhost; and never for a bare IP address."""
    host = request.get_host().rsplit(":", 1)[0] if "]" not in request.get_host() else "::1"
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return request.is_secure() or host == "localhost"
    return False
