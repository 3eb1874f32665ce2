"""Keys of a terminal: each as soon as it is pressed, without Enter and without echo."""

import asyncio
import os
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_SEQUENCES: Final = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[5~": "pageup",
    b"\x1b[6~": "pagedown",
    b"\x1b[H": "home",
    b"\x1b[F": "end",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
}
_READ_BYTES: Final = 64


@contextmanager
def keys_of(terminal: int, on_key: Callable[[str], None]) -> Iterator[None]:
    """Call `on_key` for each key of a terminal, a file descriptor; its mode is restored at the end."""
    before = termios.tcgetattr(terminal)
    loop = asyncio.get_running_loop()

    def read() -> None:
        for key in split_keys(os.read(terminal, _READ_BYTES)):
            on_key(key)

    tty.setcbreak(terminal)
    loop.add_reader(terminal, read)
    try:
        yield
    finally:
        loop.remove_reader(terminal)
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def split_keys(data: bytes) -> Iterator[str]:
    """Yield the keys in what a terminal has sent: names of special keys, and characters. End of input is `q`."""
    if not data:
        yield "q"
    while data:
        sequence = next((each for each in _SEQUENCES if data.startswith(each)), None)
        if sequence is not None:
            yield _SEQUENCES[sequence]
            data = data[len(sequence) :]
        else:
            yield chr(data[0])
            data = data[1:]
