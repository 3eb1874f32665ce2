"""The parts of a NodeTwin that the extender reads.

The operator writes a twin for each node whose power a pod moves, so they are decoded as often as pods are scheduled.
"""

from typing import Final, cast

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_api.wire import decode_kind
from joulie_core.kinds.node_twin import NodeTwin
from joulie_core.scoring.state import TwinSnapshot, node_state
from joulie_extender.struct_models import struct_of

_FIELDS: Final = msgspec.json.Decoder(struct_of(NodeTwin))
_decode_model: Final = decode_kind(NodeTwin)


def read_twin(raw: bytes) -> TwinSnapshot:
    """Read a twin.

    Raises:
        DecodeError: not a NodeTwin; names the invalid field.
    """
    try:
        # It has the model's fields by their names, with equal values.
        model = cast(NodeTwin, decode(_FIELDS.decode, raw, "NodeTwin"))
    except DecodeError:
        model = _decode_model(raw).model
    return node_state(model.status)
