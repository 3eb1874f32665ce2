"""Access to the page: for browsers that show this very page, under a name that an attacker cannot point here.

The page has no authentication. These checks keep other sites, open in the browser of a person who can reach the page,
from reading it: a name that resolves to this address (DNS rebinding) and requests across origins are refused.
"""

from collections.abc import Collection, Mapping
from ipaddress import ip_address
from typing import Final

from aiohttp import hdrs

#: Nothing but the page's own files, no markup from text, no frames.
SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none';"
        " form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_OWN_SITES: Final = frozenset({"same-origin", "none"})
_LOCALHOST: Final = "localhost"


def refusal_of(headers: Mapping[str, str], hosts: Collection[str]) -> str | None:
    """Return why a request is refused, None where it is not.

    Args:
        headers: of the request, with names in any case.
        hosts: names, besides localhost and addresses, under which the page is reached.

    """
    host = headers.get(hdrs.HOST, "")
    if not _is_allowed(_name_of(host), hosts):
        return "unknown host name: use localhost or an address, or name the host in UI_HOSTS"
    origin = headers.get(hdrs.ORIGIN)
    if origin is not None and origin.partition("://")[2].lower() != host.lower():
        return "requests from other origins are not answered"
    # A link on another site may open the page, but no other site may read it.
    navigates = headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
    if headers.get("Sec-Fetch-Site", "none") not in _OWN_SITES and not navigates:
        return "requests from other sites are not answered"
    return None


def _name_of(host: str) -> str:
    """Return a Host header without its port and brackets, in lower case."""
    if host.startswith("["):
        return host[1:].partition("]")[0].lower()
    return host.partition(":")[0].lower()


def _is_allowed(name: str, hosts: Collection[str]) -> bool:
    if name == _LOCALHOST or name in hosts:
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
