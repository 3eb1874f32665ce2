"""FNV-1a, the hash that spreads nodes over agent shards.

Stable across processes, releases and languages, unlike Python's own. Source: docs/decisions/0013-conventions.md (shard
of a node).
"""

_OFFSET_BASIS = 0x811C9DC5
_PRIME = 0x01000193
_MASK = 0xFFFFFFFF


def fnv1a_32(text: str) -> int:
    """Return the 32-bit FNV-1a hash of the text's UTF-8 bytes."""
    value = _OFFSET_BASIS
    for byte in text.encode():
        value = (value ^ byte) * _PRIME & _MASK
    return value


def shard_of(name: str, shards: int) -> int:
    """Return the shard in [0, shards) that owns the node of that name.

    Raises:
        ValueError: `shards` is not positive.
    """
    if shards < 1:
        raise ValueError(f"shards must be positive, not {shards}")
    return fnv1a_32(name) % shards
