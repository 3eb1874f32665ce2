"""Credentials of BMCs, from Secrets in the service's namespace."""

import ssl
from base64 import b64decode
from binascii import Error as Base64Error
from typing import Final, Protocol

import msgspec

from joulie_api.errors import KubeError
from joulie_api.resources import SECRETS, Resource
from joulie_core.kinds import NodeBMCSpec
from joulie_outofband.reasons import BmcError, BmcReason
from joulie_outofband.redfish.connection import BmcAccess


class _Secret(msgspec.Struct):
    data: dict[str, str] = msgspec.field(default_factory=dict)


_SECRETS: Final = msgspec.json.Decoder(_Secret)


class SecretReader(Protocol):
    """The part of `joulie_api.client.KubeClient` that is used."""

    async def get(self, res: Resource, name: str, namespace: str | None = None) -> bytes:
        """Return an object as raw JSON."""


async def read_access(client: SecretReader, spec: NodeBMCSpec, namespace: str) -> BmcAccess:
    """Return the credentials of a BMC and how its certificate is verified.

    Raises:
        BmcError: a Secret cannot be read or lacks a key; the message has names only.
    """
    username, password = await read_credentials(client, spec, namespace)
    if ":" in username:
        raise BmcError(BmcReason.CREDENTIALS_MISSING, "a username cannot contain a colon")
    certificates = None
    if spec.ca_secret_ref is not None:
        found = await _entries(client, spec.ca_secret_ref.name, namespace)
        certificates = _text(found, "ca.crt", spec.ca_secret_ref.name)
    try:
        tls = ssl.create_default_context(cadata=certificates)
    except (ssl.SSLError, ValueError) as error:
        raise BmcError(BmcReason.CREDENTIALS_MISSING, "ca.crt has no certificate in PEM") from error
    return BmcAccess(username, password, tls)


async def read_credentials(client: SecretReader, spec: NodeBMCSpec, namespace: str) -> tuple[str, str]:
    """Return the user and the password of a BMC.

    Raises:
        BmcError: the Secret cannot be read or lacks a key; the message has names only.
    """
    if spec.credentials_secret_ref is None:
        raise BmcError(BmcReason.CREDENTIALS_MISSING, "spec.credentialsSecretRef is missing")
    name = spec.credentials_secret_ref.name
    entries = await _entries(client, name, namespace)
    return _text(entries, "username", name), _text(entries, "password", name)


async def _entries(client: SecretReader, name: str, namespace: str) -> dict[str, str]:
    try:
        return _SECRETS.decode(await client.get(SECRETS, name, namespace)).data
    except (KubeError, msgspec.MsgspecError) as error:
        raise BmcError(BmcReason.CREDENTIALS_MISSING, f"Secret {name}: {type(error).__name__}") from error


def _text(entries: dict[str, str], key: str, name: str) -> str:
    try:
        return b64decode(entries[key], validate=True).decode()
    except (KeyError, Base64Error, UnicodeDecodeError) as error:
        raise BmcError(BmcReason.CREDENTIALS_MISSING, f"Secret {name} has no readable {key}") from error
