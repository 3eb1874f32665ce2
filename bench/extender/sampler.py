"""Runs the extender and samples where its CPU time goes, with less effect on it than a tracing profiler has.

    python bench/extender/sampler.py STACKS.json

From SIGUSR1 on the stack is counted at every tick of CPU time. `just bench extender --replay
--profile` draws the result.
"""

import atexit
import json
import signal
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

from joulie_extender.__main__ import main

_INTERVAL_S = 0.001
_counts: Counter[tuple[str, ...]] = Counter()


def _count(_number: int, frame: FrameType | None) -> None:
    stack = []
    while frame is not None:
        module = frame.f_globals.get("__name__", "?")
        stack.append(f"{module}:{frame.f_code.co_qualname}")
        frame = frame.f_back
    _counts[tuple(stack)] += 1


def _write(path: Path) -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)
    path.write_text(json.dumps([[list(stack), count] for stack, count in _counts.most_common()]))


if __name__ == "__main__":
    atexit.register(_write, Path(sys.argv.pop(1)))
    signal.signal(signal.SIGPROF, _count)
    signal.signal(signal.SIGUSR1, lambda *_: signal.setitimer(signal.ITIMER_PROF, _INTERVAL_S, _INTERVAL_S))
    main()
