"""Conditions on containers in the configuration of container policies and in annotations of pods."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import AfterValidator, Field, model_validator

from joulie_core.kinds.base import CheckedModel, Invariant

#: Separates keys, and their values, where a joint key names no other characters.
_SEPARATOR: Final = ":"
#: Separators that a joint key names: a character that no key has, and one between values.
_OWN_SEPARATORS: Final = re.compile(r":([^\w/.-])(\W)")
_FIELDS: Final = ("name", "namespace", "qosclass", "id", "uid")
_MAPS: Final = ("labels", "annotations", "tags")
#: Neither an escape nor a range can contain a slash, so a glob can be split at slashes.
_GLOB: Final = re.compile(r"(?:\\[^/]|\[\^?[^]\\/^][^]\\/]*\]|[^[\\])*")


class MatchOperator(StrEnum):
    """Comparison of the value of a key; a key that does not exist has no value."""

    #: It is the given value.
    EQUALS = "Equals"
    NOT_EQUAL = "NotEqual"
    #: It is one of the given values.
    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    NOT_EXIST = "NotExist"
    NOT_EXISTS = "NotExists"
    ALWAYS_TRUE = "AlwaysTrue"
    #: It matches the given glob, in which `*` and `?` do not match a slash.
    MATCHES = "Matches"
    MATCHES_NOT = "MatchesNot"
    #: It matches one of the given globs.
    MATCHES_ANY = "MatchesAny"
    MATCHES_NONE = "MatchesNone"


_ONE_VALUE: Final = (MatchOperator.EQUALS, MatchOperator.NOT_EQUAL, MatchOperator.MATCHES, MatchOperator.MATCHES_NOT)
_GLOB_OPERATORS: Final = (
    MatchOperator.MATCHES,
    MatchOperator.MATCHES_NOT,
    MatchOperator.MATCHES_ANY,
    MatchOperator.MATCHES_NONE,
)


def split_key(key: str) -> tuple[Sequence[str], str]:
    """Return the keys of a joint key and what separates their values; of any other key itself.

    A joint key is `:KEY:KEY` or `:SVKEYSKEY` with two characters of its own: S between the keys, V between the values.
    """
    if not key.startswith(_SEPARATOR):
        return (key,), ""
    if own := _OWN_SEPARATORS.match(key):
        return key[own.end() :].split(own[1]), own[2]
    return key[1:].split(_SEPARATOR), _SEPARATOR


def check_key(key: str) -> str:
    """Return a key that is well-formed.

    Raises:
        ValueError: It names nothing that a container or pod has.
    """
    for each in split_key(key)[0]:
        field, _, name = each.removeprefix("pod/").partition("/")
        if not (name if field in _MAPS else field in _FIELDS and not name):
            raise ValueError(
                f"{each!r} is no key; write {', '.join(_FIELDS)}, labels/KEY or annotations/KEY, "
                "or pod/ and one of them"
            )
    return key


def check_glob(pattern: str) -> str:
    """Return a glob that is well-formed.

    Raises:
        ValueError: A range is not closed, or a backslash precedes nothing that it could make plain.
    """
    if not _GLOB.fullmatch(pattern):
        raise ValueError(f"{pattern!r} is no glob; write ranges as [a-c] or [^a-c], and \\[ for a bracket itself")
    return pattern


class ExpressionSpec(CheckedModel):
    """A condition on a container or its pod."""

    invariants = (
        Invariant(
            "!(self.operator in ['Equals', 'NotEqual', 'Matches', 'MatchesNot']) || "
            "has(self.values) && size(self.values) == 1",
            "Equals, NotEqual, Matches and MatchesNot need one value; "
            "In, NotIn, MatchesAny and MatchesNone take several",
            lambda spec: spec.operator not in _ONE_VALUE or len(spec.values) == 1,
        ),
        Invariant(
            "self.operator == 'AlwaysTrue' || has(self.key) && size(self.key) > 0",
            "key is required for all operators but AlwaysTrue",
            lambda spec: spec.operator is MatchOperator.ALWAYS_TRUE or spec.key != "",
        ),
    )

    key: Annotated[str, Field(max_length=1024), AfterValidator(lambda key: key and check_key(key))] = ""
    """What is compared, such as `namespace`, `pod/name` or `pod/labels/app`; `:KEY:KEY` joins values by colons."""
    operator: MatchOperator
    """How it is compared."""
    values: Annotated[tuple[Annotated[str, Field(max_length=1024)], ...], Field(max_length=64)] = ()
    """What it is compared with."""

    @model_validator(mode="after")
    def _check_globs(self) -> Self:
        if self.operator in _GLOB_OPERATORS:
            for pattern in self.values:
                check_glob(pattern)
        return self
