"""URLs of a VTN and of its token server: https, or http on the loopback interface."""

import ipaddress
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator

from joulie_api.checked_texts import check_http_url
from joulie_api.setting_values import Unit


def check_secure_url(text: str) -> str:
    """Return the URL; an empty one is left to the caller.

    Raises:
        ValueError: it is no URL, has a user, a query or a fragment, or is http to another host than this one.
    """
    if not check_http_url(text):
        return text
    parts = urlsplit(text)
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("must have neither a user nor a query nor a fragment")
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise ValueError("must be https: credentials are sent to it (http is for the loopback interface alone)")
    return text


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


SecureUrl = Annotated[str, AfterValidator(check_secure_url), Unit("an https URL")]
"""Text that is a URL to which credentials may be sent."""
