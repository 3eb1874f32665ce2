"""Pages of lists, and what tells an object and its version from others."""

from typing import Final

import msgspec

from joulie_api.decoding import decode
from joulie_api.errors import DecodeError
from joulie_api.json_slices import elements, members


class ListMeta(msgspec.Struct, rename="camel"):
    """`metadata` of a list."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class ListPage(msgspec.Struct):
    """One page of a list, its items still raw JSON."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class WireIdentity(msgspec.Struct, rename="camel"):
    """The fields of `metadata` that tell an object and its version from others."""

    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Identified(msgspec.Struct):
    metadata: WireIdentity


_PAGES: Final = msgspec.json.Decoder(ListPage)
_LIST_METAS: Final = msgspec.json.Decoder(ListMeta)
_IDENTITIES: Final = msgspec.json.Decoder(WireIdentity)
_IDENTITY: Final = tuple(each.encode_name for each in msgspec.structs.fields(WireIdentity))
_IDENTIFIED: Final = msgspec.json.Decoder(_Identified)


def decode_page(raw: bytes) -> ListPage:
    """Split a list page into its items.

    Raises:
        DecodeError: not a list.
    """
    try:
        return decode(_PAGES.decode, raw, "list")
    except DecodeError:
        # One item may be nested too deeply for a decoder that skips it.
        fields = members(raw)
        meta = decode(_LIST_METAS.decode, fields.get("metadata", b""), "list")
        items = fields.get("items", b"null")
        return ListPage(meta, [msgspec.Raw(each) for each in ([] if items == b"null" else elements(items))])


def decode_identity(raw: bytes | msgspec.Raw) -> WireIdentity:
    """Return what identifies any object and its version.

    Raises:
        DecodeError: not an object.
    """
    try:
        return decode(_IDENTIFIED.decode, raw, "object").metadata
    except DecodeError:
        # As for a page; `managedFields` are as deep as the fields that they name.
        meta = members(members(bytes(raw)).get("metadata", b""))
        read = b",".join(b'"%s":%s' % (key.encode(), meta[key]) for key in _IDENTITY if key in meta)
        return decode(_IDENTITIES.decode, b"{%s}" % read, "object")
