"""Where the extender's CPU time goes, by part of it: a bar chart of what `sampler.py` counted."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

#: By prefixes of frames; a sample belongs to the part of its innermost frame that has one.
_PARTS: Final[Mapping[str, str]] = {
    "joulie_extender.scores": "scores and reply of /prioritize",
    "joulie_extender.table": "table: state of nodes",
    "joulie_core.scoring": "rows of the score formula",
    "joulie_core.powerest.assumed": "ledger of pods in flight",
    "joulie_core.powerest": "pods: demand and watts",
    "joulie_extender.pods": "pods: demand and watts",
    "joulie_api.pod_reader": "pods: demand and watts",
    "joulie_extender.requests": "requests: decoding",
    "joulie_extender.bodies": "requests: decoding",
    "joulie_extender.replies": "reply of /filter",
    "joulie_extender.metrics": "metrics",
    "joulie_extender.watches": "watches: decoding of objects",
    "joulie_api.wire": "watches: decoding of objects",
    "joulie_api.reflector": "watches: reflectors",
    "joulie_api.client": "watches: lines",
    "aiohttp.client": "watches: HTTP client",
    "aiohttp.web": "HTTP server",
    "joulie_api.http_server": "HTTP server",
    "joulie_extender.direct_http": "HTTP server",
    "joulie_extender.direct_front": "HTTP server",
    "joulie_extender.handlers": "HTTP server",
    "aiohttp.http_writer": "HTTP server",
    "asyncio": "event loop and sockets",
}


def shares(path: Path) -> dict[str, float]:
    """Return the percent of the samples by part."""
    counts: Counter[str] = Counter()
    for stack, count in json.loads(path.read_text()):
        counts[_part(stack)] += count
    return {part: 100 * count / counts.total() for part, count in counts.items()}


def draw(profiles: Mapping[str, Path], target: Path) -> None:
    """Draw the shares of each titled profile side by side."""
    by_title = {title: shares(path) for title, path in profiles.items()}
    parts = sorted({part for each in by_title.values() for part in each}, key=lambda part: _most(by_title, part))
    figure = Figure(figsize=(8, 5))
    axes = figure.subplots()
    height = 0.8 / len(by_title)
    for index, (title, each) in enumerate(by_title.items()):
        positions = [number - index * height for number in range(len(parts))]
        axes.barh(positions, [each.get(part, 0.0) for part in parts], height, label=title)
    axes.set_yticks(range(len(parts)), parts)
    axes.set(xlabel="percent of the extender's CPU time")
    axes.grid(visible=True, axis="x", alpha=0.3)
    axes.legend()
    target.parent.mkdir(exist_ok=True)
    figure.savefig(target, dpi=100, bbox_inches="tight")


def _most(by_title: Mapping[str, Mapping[str, float]], part: str) -> float:
    return max(each.get(part, 0.0) for each in by_title.values())


def _part(stack: Sequence[str]) -> str:
    for frame in stack:
        for prefix, part in _PARTS.items():
            if frame.startswith(prefix):
                return part
    return "other"
