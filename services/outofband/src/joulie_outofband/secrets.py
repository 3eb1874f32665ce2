"""Credentials of BMCs, from Secrets in the service's namespace.

Guarantees that a user and a password are returned for an address only that the Secret itself approves, with the
certificates and the name in them that the Secret itself has: who may change a NodeBMC cannot have them sent elsewhere.
Source: docs/decisions/0025-out-of-band-service.md.
"""

import ssl
from base64 import b64decode
from typing import Final

from joulie_api.client import KubeClient
from joulie_api.errors import KubeError
from joulie_api.resources import SECRETS
from joulie_api.wire.secrets import decode_secret
from joulie_core.kinds import NodeBMCSpec
from joulie_outofband.endpoint import Endpoint, is_approved, is_host_name
from joulie_outofband.reasons import BmcError, BmcReason
from joulie_outofband.redfish.connection import BmcAccess

#: Keys of the Secret of `spec.credentialsSecretRef`.
_USERNAME: Final = "username"
_PASSWORD: Final = "password"  # noqa: S105 - the name of a key
_ADDRESSES: Final = "addresses"
_CERTIFICATES: Final = "ca.crt"
#: As the field of a kubeconfig.
_SERVER_NAME: Final = "tls-server-name"


async def read_access(client: KubeClient, spec: NodeBMCSpec, endpoint: Endpoint, namespace: str) -> BmcAccess:
    """Return the credentials of a BMC and how its certificate is verified.

    Raises:
        BmcError: as `read_credentials`; or the certificates are not approved, or cannot be used.
    """
    name, entries = await _approved_entries(client, spec, endpoint, namespace)
    username, password = _credentials(entries, name)
    if ":" in username:
        raise BmcError(BmcReason.CREDENTIALS_MISSING, "a username cannot contain a colon")
    certificates = _text(entries, _CERTIFICATES, name) if _CERTIFICATES in entries else None
    if certificates is None and spec.ca_secret_ref is not None:
        raise BmcError(
            BmcReason.CA_NOT_APPROVED,
            f"Secret {name} has no {_CERTIFICATES}: spec.caSecretRef alone does not approve certificates; copy "
            f"{_CERTIFICATES} of Secret {spec.ca_secret_ref.name} into Secret {name}",
        )
    try:
        # An empty text would be none to the library, and the public certificates would verify.
        tls = ssl.create_default_context(cadata=" " if certificates == "" else certificates)
    except (ssl.SSLError, ValueError) as error:
        raise BmcError(BmcReason.CREDENTIALS_MISSING, f"{_CERTIFICATES} has no certificate in PEM") from error
    return BmcAccess(username, password, tls, _server_name(entries, name))


async def read_credentials(
    client: KubeClient, spec: NodeBMCSpec, endpoint: Endpoint, namespace: str
) -> tuple[str, str]:
    """Return the user and the password of a BMC.

    Raises:
        BmcError: the Secret cannot be read, lacks a key, or does not approve the address; the message has names only.
    """
    name, entries = await _approved_entries(client, spec, endpoint, namespace)
    return _credentials(entries, name)


async def _approved_entries(
    client: KubeClient, spec: NodeBMCSpec, endpoint: Endpoint, namespace: str
) -> tuple[str, dict[str, str]]:
    """Return the name and the entries of the Secret with the credentials, if it approves the address."""
    if spec.credentials_secret_ref is None:
        raise BmcError(BmcReason.CREDENTIALS_MISSING, "spec.credentialsSecretRef is missing")
    name = spec.credentials_secret_ref.name
    try:
        entries = decode_secret(await client.get(SECRETS, name, namespace))
    except KubeError as error:
        # Its text may quote the Secret.
        raise BmcError(BmcReason.CREDENTIALS_MISSING, f"Secret {name}: {type(error).__name__}") from error
    approved = _text(entries, _ADDRESSES, name) if _ADDRESSES in entries else ""
    if not is_approved(endpoint, approved):
        raise BmcError(
            BmcReason.ADDRESS_NOT_APPROVED,
            f"the key {_ADDRESSES} of Secret {name} does not approve {endpoint}: if that is the BMC, add it there, as "
            "it is or as a network (https://10.0.0.0/24) or suffix (https://*.bmc.example.org)",
        )
    return name, entries


def _credentials(entries: dict[str, str], name: str) -> tuple[str, str]:
    return _text(entries, _USERNAME, name), _text(entries, _PASSWORD, name)


def _server_name(entries: dict[str, str], name: str) -> str | None:
    """Return the name that the certificate of the BMC has; None: that of its address."""
    if _SERVER_NAME not in entries:
        return None
    found = _text(entries, _SERVER_NAME, name)
    if not is_host_name(found):
        raise BmcError(BmcReason.CREDENTIALS_MISSING, f"{_SERVER_NAME} of Secret {name} is not a DNS name")
    return found


def _text(entries: dict[str, str], key: str, name: str) -> str:
    try:
        return b64decode(entries[key], validate=True).decode()
    except (KeyError, ValueError) as error:
        raise BmcError(BmcReason.CREDENTIALS_MISSING, f"Secret {name} has no readable {key}") from error
