"""Services that are started and stopped, as async context managers."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


class Startable(ABC):
    """Started with `up` and stopped with `down`; both by `async with`."""

    @abstractmethod
    async def up(self) -> None:
        """Start."""

    @abstractmethod
    async def down(self) -> None:
        """Stop; nothing where it was not started."""

    async def __aenter__(self) -> Self:
        await self.up()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.down()
