"""Journal of events by node, with virtual times: the log that a violation is read from."""

from collections import Counter, deque
from collections.abc import Callable
from typing import Final

_KEPT: Final = 400
#: Of events of the whole site, such as outages.
SITE: Final = "site"


class Journal:
    """The newest events of each node and of the site; `counts` are all, by the first word of their text."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.counts: Counter[str] = Counter()
        self._clock = clock
        self._lines: dict[str, deque[tuple[float, str]]] = {}

    def note(self, subject: str, text: str) -> None:
        """Add an event of a node, or of the site."""
        self.counts[text.partition(":")[0]] += 1
        self._lines.setdefault(subject, deque(maxlen=_KEPT)).append((self._clock(), text))

    def about(self, subject: str, *, since_s: float) -> list[str]:
        """Return the events of a node and of the site from a time on, oldest first."""
        found = [
            (at_s, f"{stamp(at_s)} {each}: {text}")
            for each in (SITE, subject)
            for at_s, text in self._lines.get(each, ())
            if at_s >= since_s
        ]
        return [line for _, line in sorted(found, key=lambda item: item[0])]


def stamp(at_s: float) -> str:
    """Return a virtual time as hours, minutes and seconds."""
    minutes, seconds = divmod(at_s, 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours:02}:{minutes:02}:{seconds:06.3f}"
