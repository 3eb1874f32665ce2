"""The last value of a function, kept until it is needed of other arguments."""

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Memo(Generic[T]):
    """One value and the key that it was made of; keys are compared by equality, which is quick between same objects."""

    __slots__ = ("_key", "last")

    def __init__(self) -> None:
        self._key: object = None
        #: The value as last made; None before the first.
        self.last: T | None = None

    def of(self, key: object, make: Callable[[], T]) -> T:
        """Return the value of a key: the last one where that was made of an equal key, else what `make` returns.

        Where `make` raises, the value of the earlier key stays.
        """
        if self.last is None or self._key != key:
            self.last = make()
            self._key = key
        return self.last
