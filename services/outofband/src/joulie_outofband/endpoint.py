"""Addresses of BMCs, and which of them a person has approved for the credentials of a Secret. No I/O.

An address is read here once, by one grammar: what is compared with the approved addresses is what is connected to.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from joulie_outofband.reasons import BmcError, BmcReason

_ADDRESS: Final = re.compile(
    r"(?P<scheme>https|ipmi|wol)://(?P<host>\[[0-9A-Fa-f:.]+\]|[^:/\[\]]+)(?::(?P<port>[0-9]{1,5}))?"
)
#: Labels of a DNS name; an underscore is in names of some BMCs.
_NAME: Final = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
                          r"(\.[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?)*")  # fmt: skip
_MOST_PORT: Final = 65_535
_ANY_PREFIX: Final = "*."


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Scheme, host and port of a BMC; `host` in lower case and without brackets, `port` None: the scheme's own."""

    scheme: str
    host: str
    port: int | None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" if self.port is None else f"{self.scheme}://{host}:{self.port}"


def parse_endpoint(address: str) -> Endpoint:
    """Read `spec.address`, such as `https://10.0.0.17`, `https://[fd00::17]:8443` or `ipmi://bmc-17`.

    Raises:
        BmcError: not a scheme, a host and maybe a port; or IPv6 where the protocol has none.
    """
    endpoint = _parsed(address)
    if endpoint is None:
        raise BmcError(
            BmcReason.INVALID_ADDRESS,
            f"spec.address {address}: must be https://, ipmi:// or wol:// with a host name or an IP address, and maybe "
            "a port from 1 to 65535; an IPv6 address in brackets",
        )
    if ":" in endpoint.host and endpoint.scheme != "https":
        raise BmcError(BmcReason.INVALID_ADDRESS, f"spec.address {address}: {endpoint.scheme} is by IPv4 only")
    return endpoint


def is_approved(endpoint: Endpoint, approved: str) -> bool:
    """Return whether an address is among the approved ones, which are separated by white space.

    Each is an address as in `spec.address`, or has a network (`https://10.0.0.0/24`, `https://fd00::/64`) or a suffix
    (`https://*.bmc.example.org`) in place of the host. Without a port it approves all ports. One that cannot be read
    approves nothing. A network approves addresses within it, and no names.
    """
    return any(_approves(each, endpoint) for each in approved.split())


def is_host_name(text: str) -> bool:
    """Return whether a text is a DNS name, and not an IP address."""
    return _host(text) is not None and _ip(text) is None


def _approves(entry: str, endpoint: Endpoint) -> bool:
    scheme, _, rest = entry.partition("://")
    if scheme != endpoint.scheme:
        return False
    if "/" in rest:
        network = _network(rest)
        address = _ip(endpoint.host)
        return network is not None and address is not None and address in network
    suffix = rest.startswith(_ANY_PREFIX)
    named = _parsed(f"{scheme}://{rest.removeprefix(_ANY_PREFIX)}")
    if named is None or named.port not in {None, endpoint.port}:
        return False
    if suffix:
        return _ip(endpoint.host) is None and endpoint.host.endswith(f".{named.host}")
    return named.host == endpoint.host


def _parsed(address: str) -> Endpoint | None:
    match = _ADDRESS.fullmatch(address)
    if match is None:
        return None
    port = None if match["port"] is None else int(match["port"])
    host = _host(match["host"])
    if host is None or (port is not None and not 1 <= port <= _MOST_PORT):
        return None
    return Endpoint(match["scheme"], host, port)


def _host(text: str) -> str | None:
    """Return the host in one spelling; None for what is neither an IP address nor a DNS name."""
    address = _ip(text.strip("[]"))
    if text.startswith("["):
        return str(address) if isinstance(address, IPv6Address) else None
    if address is not None:
        return str(address)
    # Numbers alone, such as 127.1 or 0x7f000001, are addresses to a resolver, and another one than they seem.
    numeric = re.fullmatch(r"(0[xX][0-9A-Fa-f]*|[0-9]+)", text.rpartition(".")[2]) is not None
    return text.lower() if _NAME.fullmatch(text) and not numeric else None


def _ip(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text)
    except ValueError:
        return None
