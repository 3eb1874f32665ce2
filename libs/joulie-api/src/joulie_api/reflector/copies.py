"""Local copies as their readers see them, and copies whose objects are made of those of another one.

So one watch serves several readers: each gets the additions, changes and deletions of its own objects.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Protocol, TypeVar

from joulie_api.reflector.driver import STALE_TOLERANCE_S, Handler

S = TypeVar("S")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class LocalCopy(Protocol[T_co]):
    """The part of a `joulie_api.reflector.Reflector` that readers of its objects use; see there."""

    @property
    def name(self) -> str:
        """Name of the watch."""

    @property
    def store(self) -> Mapping[str, T_co]:
        """A live, read-only view of all objects."""

    @property
    def invalid(self) -> Mapping[str, str]:
        """Reasons why objects cannot be decoded, by key."""

    def is_stale(self, tolerance_s: float = STALE_TOLERANCE_S) -> bool:
        """Return whether the store is incomplete, or may be older than the tolerance."""

    def stale_reason(self, tolerance_s: float = STALE_TOLERANCE_S) -> str | None:
        """Return why the store must not be used; None when it may."""

    def subscribe(self, handler: Handler[T_co]) -> None:
        """Call `handler(key, old, new)` for every change from now on, and at once for every object in the store."""


def stale_reasons(copies: Iterable[LocalCopy[Any]], tolerance_s: float = STALE_TOLERANCE_S) -> str | None:
    """Return which of some copies must not be used, and why; None where all may."""
    reasons = ((each.name, each.stale_reason(tolerance_s)) for each in copies)
    return "; ".join(f"{name}: {reason}" for name, reason in reasons if reason is not None) or None


class MappedCopy(Generic[S, T]):
    """A copy whose objects are made of those of another copy.

    An object that begins or ceases to be one of this copy is added or deleted, as in a watch with a selector.

    Args:
        source: the other copy.
        of: returns the object that is made of one of the source, always the same one; None where there is none.
    """

    def __init__(self, source: LocalCopy[S], of: Callable[[S], T | None]) -> None:
        self._source = source
        self._of = of
        self._store = _MappedStore(source.store, of)

    @property
    def name(self) -> str:
        """Name of the watch."""
        return self._source.name

    @property
    def store(self) -> Mapping[str, T]:
        """A live, read-only view of all objects; its length is counted anew each time."""
        return self._store

    @property
    def invalid(self) -> Mapping[str, str]:
        """Reasons why objects of the source cannot be decoded, by key: they might be of this copy."""
        return self._source.invalid

    def is_stale(self, tolerance_s: float = STALE_TOLERANCE_S) -> bool:
        """Return whether the store is incomplete, or may be older than the tolerance."""
        return self._source.is_stale(tolerance_s)

    def stale_reason(self, tolerance_s: float = STALE_TOLERANCE_S) -> str | None:
        """Return why the store must not be used; None when it may."""
        return self._source.stale_reason(tolerance_s)

    def subscribe(self, handler: Handler[T]) -> None:
        """Call `handler(key, old, new)` for every change from now on, and at once for every object in the store."""
        of = self._of
        #: What the handler has taken in part, by key: it failed.
        in_part: dict[str, T] = {}

        def on_change(key: str, old: S | None, new: S | None) -> None:
            before = None if old is None else of(old)
            after = None if new is None else of(new)
            if before is None and after is None:
                before = in_part.get(key)
            if before is after:
                return
            try:
                handler(key, before, after)
            except Exception:
                if after is not None:
                    in_part[key] = after
                raise
            in_part.pop(key, None)

        self._source.subscribe(on_change)


class _MappedStore(Mapping[str, T], Generic[S, T]):
    def __init__(self, source: Mapping[str, S], of: Callable[[S], T | None]) -> None:
        self._source = source
        self._of = of

    def __getitem__(self, key: str) -> T:
        found = self._of(self._source[key])
        if found is None:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[str]:
        return (key for key, each in self._source.items() if self._of(each) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
