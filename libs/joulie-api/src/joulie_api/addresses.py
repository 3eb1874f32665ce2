"""Listening addresses as settings write them. Pure."""

from dataclasses import dataclass

_MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """Where a socket listens."""

    host: str
    """The empty string: every interface."""
    port: int
    """0: any free port."""


def parse_addr(text: str) -> Address:
    """Read `:9876`, `127.0.0.1:0` or `[::1]:8080`.

    Raises:
        ValueError: the text is no such address.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r} is ambiguous: write an IPv6 host in brackets, as [::1]:8080")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > _MAX_PORT:
        raise ValueError(f"{text!r} is no address: write HOST:PORT or :PORT")
    return Address(host, int(port))
