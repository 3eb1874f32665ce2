"""The slowdown that Namespaces allow, as the API server has them.

Guarantees that a Namespace of a copy that is incomplete or old, and one that cannot be decoded, was not seen.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from joulie_api.client import KubeClient
from joulie_api.decoding import decode
from joulie_api.reflector import STALE_TOLERANCE_S, Reflector
from joulie_api.resources import NAMESPACES
from joulie_api.wire.metadata import WireObject
from joulie_core.labels import MAX_SLOWDOWN

_NAMESPACES: Final = msgspec.json.Decoder(WireObject)


def decode_namespace(raw: bytes) -> Mapping[str, str]:
    """Return the annotation of the allowed slowdown of a Namespace, if it has one; the others are not kept.

    Raises:
        DecodeError: not a Namespace.
    """
    written = (decode(_NAMESPACES.decode, raw, "Namespace").metadata.annotations or {}).get(MAX_SLOWDOWN)
    return {} if written is None else {MAX_SLOWDOWN: written}


class NamespacesWatch:
    """All Namespaces of the cluster."""

    def __init__(self, client: KubeClient) -> None:
        #: To be run.
        self.reflector: Reflector[Mapping[str, str]] = Reflector(client, NAMESPACES, decode_namespace)

    def annotations(self, name: str) -> Mapping[str, str] | None:
        """Return the annotations of a Namespace that decide about limits; None where it was not seen."""
        if self.reflector.is_stale(STALE_TOLERANCE_S) or name in self.reflector.invalid:
            return None
        return self.reflector.store.get(name)
