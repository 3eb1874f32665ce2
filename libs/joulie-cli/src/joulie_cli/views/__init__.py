"""Views: the parts of objects that are shown, and their decoding; other fields are skipped. No I/O.

Absent fields are None. Words of resources stay as they are written, so that values of a newer release are shown too:
the models of `joulie_core.kinds` would refuse an object with a value that this release does not know.
Figures that the services do not use as such, as a cap of 0 W, are None.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import msgspec

from joulie_api.decoding import decode
from joulie_api.wire.metadata import WireObject

W = TypeVar("W")
T = TypeVar("T")
Raw = bytes | msgspec.Raw


def make_decoder(wire: type[W], what: str, convert: Callable[[W], T]) -> Callable[[Raw], T]:
    """Return a function that decodes an object and converts it to what is shown; it raises DecodeError.

    Args:
        wire: the shape of the object.
        what: names it in messages, such as `Node`.
        convert: makes what is shown of it.
    """
    decoder = msgspec.json.Decoder(wire)

    def read(raw: Raw) -> T:
        return convert(decode(decoder.decode, raw, what))

    return read


_NAMES: Final = msgspec.json.Decoder(WireObject)


def decode_name(raw: Raw, what: str) -> str:
    """Return the name of an object whose other fields cannot be read; `what` names its kind.

    Raises:
        DecodeError: not even its name can be.
    """
    return decode(_NAMES.decode, raw, what).metadata.name


#: Namespace and name of any object.
decode_namespaced_name: Final = make_decoder(
    WireObject, "object", lambda wire: (wire.metadata.namespace, wire.metadata.name)
)
