"""Wait for a condition on a real system, never for a time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

_POLL_S = 0.1
_Read = TypeVar("_Read")


async def eventually(probe: Callable[[], Awaitable[Any]], *, within_s: float, what: str = "") -> float:
    """Poll until the probe neither raises AssertionError nor returns False.

    Returns:
        Seconds it took.

    Raises:
        AssertionError: the last one of the probe, after `within_s` seconds.
    """
    loop = asyncio.get_running_loop()
    start = loop.time()
    while True:
        try:
            answer = await probe()
            assert answer is not False, what or "the condition does not hold"
        except AssertionError as error:
            if loop.time() - start > within_s:
                raise AssertionError(f"not within {within_s:g} s: {error}") from error
        else:
            return loop.time() - start
        await asyncio.sleep(_POLL_S)


async def holds(probe: Callable[[], Awaitable[Any]], *, for_s: float) -> None:
    """Check repeatedly for `for_s` seconds that the probe does not raise AssertionError."""
    loop = asyncio.get_running_loop()
    end = loop.time() + for_s
    while loop.time() < end:
        await probe()
        await asyncio.sleep(_POLL_S)


async def settled(read: Callable[[], Awaitable[_Read]], *, for_s: float, within_s: float) -> _Read:
    """Return what is read once it has stayed the same for `for_s` seconds.

    Raises:
        AssertionError: it still changes after `within_s` seconds.
    """
    loop = asyncio.get_running_loop()
    start = since = loop.time()
    value = await read()
    while loop.time() - since < for_s:
        assert loop.time() - start <= within_s, f"not the same for {for_s:g} s within {within_s:g} s"
        await asyncio.sleep(_POLL_S)
        if (now := await read()) != value:
            value, since = now, loop.time()
    return value
