"""The grammar of poison: invalid or hostile forms of a valid JSON document, reproducible by their seed.

A document is taken apart into `Members` (an object as pairs, so that a key can stand twice) and `Verbatim` (bytes that
are written as they are), changed at one place, and written again. `metadata.name`, `namespace`, `uid` and
`resourceVersion` are never changed, since an API server sends no object without them.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any


class Verbatim(bytes):
    """Bytes that stand in the document as they are."""


class Members(list[tuple[Any, Any]]):
    """The members of an object; a key may stand twice, and may be `Verbatim`."""


@dataclass(frozen=True, slots=True)
class Poison:
    """One case. `family` and `name` say what was done; `well_formed`: an API server could send it within an object."""

    family: str
    name: str
    raw: bytes
    well_formed: bool = True

    @property
    def label(self) -> str:
        """Family and name."""
        return f"{self.family}/{self.name}"


_KEPT = frozenset(
    {("metadata", "name"), ("metadata", "namespace"), ("metadata", "uid"), ("metadata", "resourceVersion")}
)
_DEPTHS = (60, 600, 1_050, 3_000, 20_000, 100_000)
_NUMBERS = (
    *(
        "1e308",
        "-1e308",
        "1.7976931348623157e308",
        "1e999",
        "-1e999",
        "5e-324",
        "1e-999",
        "-0",
        "-0.0",
        "0",
        "-1",
        "0.1",
    ),
    *("9007199254740993", "2147483648", "9223372036854775807", "9223372036854775808", "-9223372036854775809"),
    *("18446744073709551616", "9" * 400, "-" + "9" * 400, "0." + "9" * 400, "1e" + "9" * 30, "9" * 5_000),
)
#: Numbers that are not JSON.
_TOKENS = ("NaN", "Infinity", "-Infinity", "nan", "inf", "+1", "01", "1.", ".5", "0x10", "1_000", "1e", "--1", "True")
_NUMBER_TEXTS = (
    *(
        "1e308",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
        "9Ei",
        "9999999999999999999Ei",
        "1n",
        "1u",
        "-5",
        "-1Gi",
        "0x10",
    ),
    *(
        "9" * 400,
        "1e" + "9" * 30,
        "1" + "0" * 5_000,
        "1e-999",
        " 1",
        "1 ",
        "\uff11\uff12",
        "\u0663",
        "1,5",
        "",
        "0",
        "-0",
        "1e3Gi",
    ),
)
_CONTROLS = (
    *(chr(code) for code in (*range(0x20), 0x7F, 0x80, 0x85, 0x9B, 0xAD, 0x200B, 0x200E, 0x202E, 0x2028, 0x2029)),
    *("\u2066", "\ufeff", "\ufffe", "\uffff", "\U000e0001", "\U0010ffff", "\x1b[2J\x1b]0;x\x07", "\x9b31m", "\r\n\r\n"),
    *("{{", "%s%n", "${x}", "../../x", "a\x00b", "'\"`", "\u0301" * 200, "\U0001f469\u200d\U0001f469"),
)
_RAW_TEXTS = (
    *(b"\xff", b"M\xfcller", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\x80", b"\xfe\xff"),
    *(b"\x00", b"\n", b"\x1f", b"\\x41", b"\\u12", b"\\ud800\\", b"\\"),
)
_ESCAPED_TEXTS = (
    *(b"\\ud800", b"\\udfff", b"\\udc00\\ud800", b"\\ud800x", b"\\u0000", b"\\u001b[31m", b"\\u009b", b"\\ufffe"),
    *(b"\\ud83d\\ude00", b"\\/", b"\\u0022", b"\\u007f"),
)
_FOREIGN = ("joulie.io/v9", "v1", "v0alpha0", "", "joulie.io", "a/b/c", "batch/v1")
_TYPES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1.5,
    "",
    "a",
    [],
    {},
    [None],
    [[]],
    {"": None},
    [{"a": "b"}],
    "null",
)


def parsed(value: Any) -> Any:
    """Return a document with its objects as `Members`."""
    if isinstance(value, dict):
        return Members((key, parsed(each)) for key, each in value.items())
    return [parsed(each) for each in value] if isinstance(value, list) else value


def written(value: Any) -> bytes:
    """Return the document as bytes."""
    if isinstance(value, Verbatim):
        return bytes(value)
    if isinstance(value, Members):
        return b"{" + b",".join(written(key) + b":" + written(each) for key, each in value) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(written(each) for each in value) + b"]"
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class _Place:
    """A value of a document: where it is, and how it is replaced."""

    parent: Any
    index: int
    path: tuple[Any, ...]

    @property
    def value(self) -> Any:
        found = self.parent[self.index]
        return found[1] if isinstance(self.parent, Members) else found

    def put(self, value: Any) -> None:
        self.parent[self.index] = (self.parent[self.index][0], value) if isinstance(self.parent, Members) else value


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[_Place]:
    if isinstance(value, list):
        for index, each in enumerate(value):
            key, inner = each if isinstance(value, Members) else (index, each)
            where = (*path, key)
            if where in _KEPT:
                continue
            if where != ("metadata",):
                yield _Place(value, index, where)
            yield from _places(inner, where)


def _objects(document: Any) -> list[tuple[Members, tuple[Any, ...]]]:
    found = [(each.value, each.path) for each in _places(document) if isinstance(each.value, Members)]
    return [(document, ()), *found] if isinstance(document, Members) else found


class Grammar:
    """Endless poison of one seed, made of valid documents."""

    def __init__(self, dice: Random, *, big_every: int = 50) -> None:
        self._dice = dice
        #: One in so many is large, since a large one takes as long as a hundred others.
        self._big_every = big_every
        self._families: Sequence[Callable[[Any], tuple[str, bool] | tuple[str, bool, bytes]]] = (
            self._depth,
            self._size,
            self._encoding,
            self._number,
            self._number,
            self._control,
            self._missing,
            self._doubled,
            self._type,
            self._foreign,
        )

    def draw(self, document: dict[str, Any], *, well_formed: bool = False) -> Poison:
        """Return a poisoned form; with `well_formed` one that is JSON in UTF-8."""
        while True:
            tree = parsed(json.loads(json.dumps(document)))
            family = self._dice.choice(self._families)
            name, is_json, *raw = family(tree)
            if well_formed and not is_json:
                continue
            return Poison(family.__name__.strip("_"), name, raw[0] if raw else written(tree), is_json)

    def often(self) -> bool:
        """Return True nine times of ten."""
        return self._dice.randrange(10) > 0

    # Each changes the tree, or returns the whole bytes.

    def _place(self, tree: Any, *, leaf: bool | None = None) -> _Place:
        found = [each for each in _places(tree) if leaf is None or leaf is not isinstance(each.value, list)] or list(
            _places(tree)
        )
        return self._dice.choice(found)

    def _depth(self, tree: Any) -> tuple[str, bool]:
        depth, dice = self._dice.choice(_DEPTHS), self._dice
        opening, closing = dice.choice(((b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]"), (b'{"spec":[', b"]}")))
        nested = Verbatim(opening * depth + b"1" + closing * depth)
        if dice.choice((True, False)):
            target, path = dice.choice(_objects(tree))
            target.append((dice.choice(("unknown", "parameters", "status")), nested))
            return f"{depth} in a new field of {_text(path)}", True
        place = self._place(tree)
        place.put(nested)
        return f"{depth} at {_text(place.path)}", True

    def _size(self, tree: Any) -> tuple[str, bool]:
        dice = self._dice
        scale = 64 if dice.randrange(self._big_every) == 0 else 1
        place, number = self._place(tree), dice.choice((300, 3_000, 16_000)) * scale
        match dice.randrange(5):
            case 0:
                place.put("a" * number)
                what = f"text of {number}"
            case 1:
                place.put([place.value] * max(1, number // 100))
                what = f"list of {max(1, number // 100)}"
            case 2:
                place.put(Members((f"k{each}", "v") for each in range(number // 20)))
                what = f"object of {number // 20}"
            case 3:
                target, _ = dice.choice(_objects(tree))
                target.append(("k" * number, "v"))
                what = f"key of {number}"
            case _:
                place.put("\U0001f600" * (number // 4))
                what = f"text of {number // 4} wide characters"
        return f"{what} at {_text(place.path)}", True

    def _encoding(self, tree: Any) -> tuple[str, bool] | tuple[str, bool, bytes]:
        dice = self._dice
        match dice.randrange(4):
            case 0:
                text = dice.choice(_RAW_TEXTS)
                place = self._place(tree, leaf=True)
                place.put(Verbatim(b'"' + text + b'"'))
                return f"bytes {text!r} at {_text(place.path)}", False
            case 1 | 2:
                text = dice.choice(_ESCAPED_TEXTS)
                place = self._place(tree, leaf=True)
                place.put(Verbatim(b'"' + text + b'"'))
                return f"escape {text.decode()} at {_text(place.path)}", True
            case _:
                return self._whole(written(tree))

    def _whole(self, raw: bytes) -> tuple[str, bool, bytes]:
        dice, text = self._dice, raw.decode(errors="replace")
        forms: tuple[tuple[str, bytes], ...] = (
            ("byte order mark", b"\xef\xbb\xbf" + raw),
            ("UTF-16", text.encode("utf-16")),
            ("UTF-32", text.encode("utf-32")),
            ("cut", raw[: dice.randrange(len(raw))]),
            ("trailing bytes", raw + b"\x00"),
            ("twice", raw + raw),
            ("nothing", b""),
            ("blanks", b" " * 10_000),
            ("brackets only", b"[" * 50_000),
            ("not JSON", b"<html><body>503</body></html>"),
            ("random bytes", dice.randbytes(300)),
            ("a text", b'"a"'),
            ("null", b"null"),
            ("a number", b"9" * 400),
            ("a list", b"[" + raw + b"]"),
            ("blanks around", b"\n\t " * 1_000 + raw + b"\r\n" * 1_000),
        )
        name, changed = dice.choice(forms)
        return name, False, changed

    def _number(self, tree: Any) -> tuple[str, bool]:
        dice = self._dice
        numeric = [each for each in _places(tree) if isinstance(each.value, int | float) and each.value is not True]
        place = dice.choice(numeric) if numeric and dice.randrange(4) else self._place(tree, leaf=True)
        match dice.randrange(6):
            case 0:
                token = dice.choice(_TOKENS)
                place.put(Verbatim(token.encode()))
                return f"token {token} at {_text(place.path)}", False
            case 1 | 2:
                text = dice.choice(_NUMBER_TEXTS)
                place.put(text)
                return f"text {_short(text)} at {_text(place.path)}", True
            case _:
                number = dice.choice(_NUMBERS)
                place.put(Verbatim(number.encode()))
                return f"{_short(number)} at {_text(place.path)}", True

    def _control(self, tree: Any) -> tuple[str, bool]:
        dice, text = self._dice, self._dice.choice(_CONTROLS)
        if dice.randrange(4) == 0:
            target, path = dice.choice(_objects(tree))
            target.append((text, dice.choice(_CONTROLS)))
            return f"{text!r} as a key of {_text(path)}"[:100], True
        place = self._place(tree, leaf=True)
        before = place.value if isinstance(place.value, str) and dice.choice((True, False)) else ""
        place.put(f"{before}{text}{before}")
        return f"{text!r} at {_text(place.path)}"[:100], True

    def _missing(self, tree: Any) -> tuple[str, bool]:
        place = self._place(tree)
        match self._dice.randrange(3):
            case 0:
                place.put(None)
                return f"null at {_text(place.path)}", True
            case 1:
                place.put(type(place.value)() if isinstance(place.value, str | list) else Members())
                return f"empty {_text(place.path)}", True
            case _:
                del place.parent[place.index]
                return f"without {_text(place.path)}", True

    def _doubled(self, tree: Any) -> tuple[str, bool]:
        dice = self._dice
        members = [each for each in _places(tree) if isinstance(each.parent, Members)]
        place = dice.choice(members)
        key, value = place.parent[place.index]
        match dice.randrange(4):
            case 0:
                place.parent.append((key, value))
            case 1:
                place.parent.append((key, dice.choice(_TYPES) if dice.randrange(2) else Members()))
            case 2:
                place.parent.insert(0, (key, parsed(dice.choice(_TYPES))))
            case _:
                place.parent.append((dice.choice((str(key).upper(), str(key).title(), f"{key} ")), value))
        return f"{_text(place.path)}", True

    def _type(self, tree: Any) -> tuple[str, bool]:
        place, value = self._place(tree), self._dice.choice(_TYPES)
        place.put(parsed(value))
        return f"{value!r} at {_text(place.path)}", True

    def _foreign(self, tree: Any) -> tuple[str, bool]:
        dice = self._dice
        match dice.randrange(3):
            case 0 if isinstance(tree, Members):
                version = dice.choice(_FOREIGN)
                tree.insert(0, ("apiVersion", version))
                return f"version {version!r} before", True
            case 1 if isinstance(tree, Members):
                tree.append(
                    (dice.choice(("kind", "apiVersion", "@odata.type")), dice.choice(("Status", "List", "v9", 9)))
                )
                return "another kind behind", True
            case _:
                place = self._place(tree, leaf=True)
                place.put(dice.choice(("Later", "later/v9", "Unknown", "future", "ALL", "*")))
                return f"unknown value at {_text(place.path)}", True


def _text(path: Sequence[Any]) -> str:
    return ".".join(str(part) for part in path)[-60:] or "the top"


def _short(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:8]}... ({len(text)} characters)"  # noqa: PLR2004 - one column
