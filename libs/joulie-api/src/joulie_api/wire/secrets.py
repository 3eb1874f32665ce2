"""Secrets on the wire."""

from typing import Final

import msgspec

from joulie_api.decoding import decode


class _Secret(msgspec.Struct):
    data: dict[str, str] | None = None


_SECRETS: Final = msgspec.json.Decoder(_Secret)


def decode_secret(raw: bytes) -> dict[str, str]:
    """Return the entries of a Secret, their values in base64.

    Raises:
        DecodeError: not a Secret; the text may quote it.
    """
    return decode(_SECRETS.decode, raw, "Secret").data or {}
