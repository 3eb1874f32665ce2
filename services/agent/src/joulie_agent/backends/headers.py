"""Request headers for HTTP backends, read from Secrets in the agent's own namespace.

A Secret is read at most once in `TTL_S` however many nodes share it, a change takes effect after that time, and no
value appears in a log line or a message.
"""

import asyncio
import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from joulie_api.client import KubeClient
from joulie_api.errors import KubeError
from joulie_api.resources import SECRETS
from joulie_api.wire.secrets import decode_secret

#: Credentials are rotated by hand or by the hour; a minute is soon enough and spares the API server.
TTL_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class BadSecret:
    """Reason why a Secret yields no headers."""

    message: str


@dataclass(frozen=True, slots=True)
class _Entry:
    answer: Mapping[str, str] | BadSecret
    read_at: float


class SecretHeaders:
    """Reader of the headers in one namespace."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._entries: dict[str, _Entry] = {}
        self._reading: dict[str, asyncio.Lock] = {}

    async def headers(self, secret: str) -> Mapping[str, str] | BadSecret:
        """Return the headers of a Secret: each key is a name, its value the header's value."""
        async with self._reading.setdefault(secret, asyncio.Lock()):
            now = asyncio.get_running_loop().time()
            entry = self._entries.get(secret)
            if entry is None or now - entry.read_at >= TTL_S:
                entry = self._entries[secret] = _Entry(await self._read(secret), now)
            return entry.answer

    async def _read(self, name: str) -> Mapping[str, str] | BadSecret:
        where = f"Secret {self._namespace}/{name}"
        try:
            raw = await self._client.get(SECRETS, name, self._namespace)
            data = decode_secret(raw)
            # A trailing newline is what `echo` leaves in a file; within a value it would start a second header.
            headers = {key: base64.b64decode(value, validate=True).decode().strip() for key, value in data.items()}
        except KubeError as error:
            return BadSecret(f"{where}: {error}")
        except (binascii.Error, UnicodeDecodeError):
            return BadSecret(f"{where} holds something other than text")
        if not headers:
            return BadSecret(f"{where} is empty")
        if any(character in text for text in (*headers, *headers.values()) for character in "\r\n\0"):
            return BadSecret(f"{where} holds a line break")
        return headers
