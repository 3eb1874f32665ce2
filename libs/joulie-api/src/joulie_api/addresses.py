"""Listening addresses as written in settings. No I/O."""

from dataclasses import dataclass

_MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """Where a socket listens."""

    host: str
    """Empty: all interfaces."""
    port: int
    """0: a free port."""


def parse_addr(text: str) -> Address:
    """Parse `:9876`, `127.0.0.1:0` or `[::1]:8080`.

    Raises:
        ValueError: the text is not such an address.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r} is ambiguous: write an IPv6 host in brackets, as [::1]:8080")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > _MAX_PORT:
        raise ValueError(f"{text!r} is not an address: write HOST:PORT or :PORT")
    return Address(host, int(port))
