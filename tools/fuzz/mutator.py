"""Mutated bodies, headers and raw bytes for an extender, reproducible by their seed."""

import json
from collections.abc import Iterator
from random import Random
from typing import Any

from joulie_testing.api import make_node, make_pod

PATHS = (b"/filter", b"/prioritize", b"/debug/explain")
_NAMES = [f"node-{number}" for number in range(30)]
_TOKENS = (
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"',
        b",",
        b":",
        b"null",
        b"true",
        b"-",
        b"0",
        b"1e999",
        b"-1e-999",
        b"NaN",
        b"Infinity",
    ),
    *(
        b"9" * 400,
        b"[" * 5_000,
        b'{"a":' * 3_000,
        b"\x00",
        b"\xff\xfe",
        b"\\ud800",
        b"\\u0000",
        b"\xed\xa0\x80",
        b"\xef\xbb\xbf",
    ),
    *(
        b'},{"metadata":{',
        b'"Nodes":{',
        b'"items":[{',
        b"}]}",
        b'"NodeNames":',
        b'"Pod":',
        b'"nodenames":',
        b"1n",
        b"1Ei",
        b"-5",
    ),
)
_VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 10**30, 1e308, 0.1, "", "a" * 5_000, "\x00", "1e999", "-1", "1Ei", "9" * 50, [], {}),
    *([None], [[]], {"": None}, {"metadata": {}}, [{"metadata": {"name": 1}}], ["a"] * 500),
)
#: Header lines, sent with bodies that are valid.
HEADERS = (
    *(
        b"Content-Encoding: " + value
        for value in (b"gzip", b"deflate", b"br", b"zstd", b"identity", b"x", b"gzip,gzip")
    ),
    *(
        b"Content-Type: " + value
        for value in (b"text/html", b"multipart/form-data; boundary=a", b"a/b; charset=\xff", b"")
    ),
    *(b"Expect: 100-continue", b"Expect: nothing", b"Upgrade: websocket\r\nConnection: Upgrade", b"Connection: close"),
    *(b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked", b"Content-Length: 1", b"Host: b", b"Cookie: a=\xff"),
    *(
        b"X: " + b"a" * 9_000,
        b"\r\n".join(b"X-%d: a" % number for number in range(500)),
        b"Range: bytes=0-",
        b": a",
        b"X",
    ),
    *(
        b"X-Forwarded-For: \x01",
        b"Accept-Encoding: gzip",
        b"Content-MD5: a",
        b"If-Match: *",
        b"Transfer-Encoding: identity",
    ),
)
_RAW = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"\r\n" * 5_000,
    b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{",
    b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
    b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: 250000000\r\n\r\n{",
    b"POST /filter HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999\r\n\r\n{",
    b"POST /filter HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
    b"POST /filter HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}\r\n0\r\n\r\n",
    b"POST /filter HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n{}",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\n" + b"a: b\r\n" * 5_000 + b"\r\n",
    b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"TRACE /filter HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET http://[::1/ HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /debug/scoring?node=%ff%00%zz HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /%2e%2e/%2e%2e HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 200,
)


def corpus() -> list[bytes]:
    """Return bodies as kube-scheduler sends them, with names and with full nodes, and other spellings that are read."""
    plain = make_pod("plain", cpu="500m")
    fast = make_pod(
        "fast", cpu=4, workload_class="performance", node_selector={"joulie.io/power-profile": "performance"}
    )
    claims = {**plain, "spec": {**plain["spec"], "resourceClaims": [{"name": "gpu", "resourceClaimName": "claimed"}]}}
    nodes = {"items": [make_node(name) for name in _NAMES[:4]]}
    bodies: list[dict[str, Any]] = [
        {"Pod": plain, "Nodes": None, "NodeNames": _NAMES},
        {"Pod": fast, "Nodes": None, "NodeNames": _NAMES[:5]},
        {"Pod": claims, "Nodes": None, "NodeNames": _NAMES[:2]},
        {"Pod": fast, "Nodes": nodes, "NodeNames": None},
        {"pod": plain, "nodes": nodes},
        {"pod": fast, "nodenames": _NAMES[:3]},
    ]
    return [json.dumps(body, separators=(",", ":")).encode() for body in bodies]


class Mutator:
    """Endless mutated bodies and raw requests of one seed."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self._corpus = corpus()

    def body(self) -> bytes:
        """Return a body with one to four mutations."""
        raw = self.dice.choice(self._corpus)
        for _ in range(self.dice.randint(1, 4)):
            raw = self._mutated(raw)
        return raw

    def valid_body(self) -> bytes:
        """Return a body as it is sent in operation."""
        return self.dice.choice(self._corpus)

    def raw(self) -> bytes:
        """Return bytes that are not, or not quite, one HTTP request."""
        dice = self.dice
        raw = dice.choice((*_RAW, dice.randbytes(200), request(b"/filter", self.body())))
        if dice.choice((True, False)):
            raw = self._mutated_bytes(raw)
        return raw[: dice.randint(1, len(raw))] if raw and dice.choice((True, False, False)) else raw

    def _mutated(self, raw: bytes) -> bytes:
        if self.dice.choice((True, False, False)):
            try:
                tree = json.loads(raw)
            except (ValueError, RecursionError):
                return self._mutated_bytes(raw)
            return json.dumps(self._mutated_tree(tree), separators=(",", ":")).encode()
        return self._mutated_bytes(raw)

    def _mutated_tree(self, tree: Any) -> Any:
        """Replace, remove or repeat one value at a random place."""
        dice, places = self.dice, list(_places(tree))
        if not places:
            return dice.choice(_VALUES)
        parent, key = dice.choice(places)
        match dice.randrange(3):
            case 0:
                parent[key] = dice.choice(_VALUES)
            case 1:
                del parent[key]
            case _ if isinstance(parent, list):
                parent.append(parent[key])
            case _:
                parent[dice.choice((str(key).upper(), str(key) + "\x00", ""))] = parent[key]
        return tree

    def _mutated_bytes(self, raw: bytes) -> bytes:
        dice = self.dice
        start = dice.randrange(len(raw) + 1)
        end = min(len(raw), start + dice.choice((1, 2, 8, 64)))
        match dice.randrange(6):
            case 0:
                return raw[:start] + dice.randbytes(end - start) + raw[end:]
            case 1:
                return raw[:start] + raw[end:]
            case 2:
                return raw[:end] + raw[start:end] * dice.choice((1, 3)) + raw[end:]
            case 3:
                return raw[:start] + dice.choice(_TOKENS) + raw[end:]
            case 4:
                return raw[:start]
            case _:
                other = dice.choice(self._corpus)
                return raw[:start] + other[dice.randrange(len(other)) :]


def request(path: bytes, body: bytes, *headers: bytes) -> bytes:
    """Return a complete request with these header lines."""
    lines = (b"POST " + path + b" HTTP/1.1", b"Host: fuzz", b"Content-Length: %d" % len(body), *headers, b"", b"")
    return b"\r\n".join(lines) + body


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ()
    for key in keys:
        yield tree, key
        yield from _places(tree[key])
