"""Tasks that go on for as long as a run does."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")


class FollowingTasks(asyncio.TaskGroup):
    """A task group whose tasks are cancelled when its block ends."""

    def __init__(self) -> None:
        super().__init__()
        self._following: list[asyncio.Task[Any]] = []

    def follow(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run something until the block ends."""
        task = self.create_task(work)
        self._following.append(task)
        return task

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Cancel the tasks and wait for them."""
        for task in self._following:
            task.cancel()
        await super().__aexit__(kind, error, traceback)
