"""The annotation of Namespaces."""

import asyncio
from contextlib import suppress

import msgspec
import pytest

from joulie_api.errors import DecodeError
from joulie_api.namespaces import NamespacesWatch, decode_namespace
from joulie_core.labels import MAX_SLOWDOWN


def namespace(name, annotations=None):
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, **({"annotations": annotations} if annotations else {})},
    }


def test_the_one_annotation_is_kept():
    raw = msgspec.json.encode(namespace("ml", {MAX_SLOWDOWN: "25%", "notes": "x" * 1000}))
    assert decode_namespace(raw) == {MAX_SLOWDOWN: "25%"}
    assert decode_namespace(msgspec.json.encode(namespace("ml"))) == {}


@pytest.mark.parametrize("raw", [b"{}", b"[]", b'{"metadata": {"annotations": 1}}'])
def test_what_is_no_namespace_is_refused(raw):
    with pytest.raises(DecodeError):
        decode_namespace(raw)


async def test_a_namespace_that_was_not_seen_is_not_one_without_the_annotation(fake_api, fake_client):
    fake_api.put_all([namespace("ml", {MAX_SLOWDOWN: "10%"}), namespace("plain")])
    watch = NamespacesWatch(fake_client)
    assert watch.annotations("plain") is None, "not listed yet"
    task = asyncio.create_task(watch.reflector.run())
    try:
        await asyncio.wait_for(watch.reflector.wait_synced(), 30)
        assert [watch.annotations(each) for each in ("ml", "plain", "gone")] == [{MAX_SLOWDOWN: "10%"}, {}, None]
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
