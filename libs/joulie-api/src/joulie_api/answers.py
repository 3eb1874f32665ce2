"""Answers of HTTP servers that are not the API server: received up to a limit.

Guarantees that no answer takes more memory than its limit, whatever it announces, sends or compresses: an encoded body
is refused, since few bytes of it decode to many. Sessions that read with `read_answer` are made with `session_options`.
"""

from typing import Any, Final

import aiohttp
from aiohttp import hdrs

from joulie_api.errors import DecodeError

_IDENTITY: Final = "identity"
_CHUNK_BYTES: Final = 65_536


def session_options() -> dict[str, Any]:
    """Return arguments of `aiohttp.ClientSession`: ask for bodies without encoding, and decode none."""
    return {"headers": {hdrs.ACCEPT_ENCODING: _IDENTITY}, "auto_decompress": False}


async def read_answer(response: aiohttp.ClientResponse, *, max_bytes: int, what: str) -> bytes:
    """Return the body; `what` names the sender in the message.

    Raises:
        DecodeError: it is encoded, or longer than `max_bytes`; the connection is closed then.
        aiohttp.ClientError: it is not received completely.
    """
    encoding = response.headers.get(hdrs.CONTENT_ENCODING, _IDENTITY).strip().lower()
    if encoding not in ("", _IDENTITY):
        response.close()
        raise DecodeError(f"{what} answers with a body encoded as {encoding[:20]!r}, although none was requested")
    body = bytearray()
    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
        body += chunk
        if len(body) > max_bytes:
            response.close()
            raise DecodeError(f"{what} answers with more than {max_bytes} bytes")
    return bytes(body)
