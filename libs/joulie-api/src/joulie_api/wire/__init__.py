"""Shapes of Kubernetes' objects on the wire, one module an object, and their decoding.

Only fields that Joulie reads are decoded, the others are skipped; an absent or null field is its default, as in Go.
Quantities stay as written. A shape that several modules read is here; what one of them alone reads of an object is with
it. Where each field costs, as for each pod of a cluster, a shape has a base with the fields that are read there.
"""

from joulie_api.wire.kinds import Versioned, decode_kind
from joulie_api.wire.lists import ListMeta, ListPage, WireIdentity, decode_identity, decode_page
from joulie_api.wire.metadata import Metadata
from joulie_api.wire.nodes import decode_node
from joulie_api.wire.pods import decode_pod

__all__ = [
    "ListMeta",
    "ListPage",
    "Metadata",
    "Versioned",
    "WireIdentity",
    "decode_identity",
    "decode_kind",
    "decode_node",
    "decode_page",
    "decode_pod",
]
