"""Series of energy as the agents and Kepler have them, and a Prometheus that has them of a time that is over."""

import asyncio
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from joulie_agent.energy.metrics import energy_families
from joulie_core.attribution.energy import EnergyKind
from joulie_core.attribution.sums import EnergySum, PodOwner
from joulie_core.attribution.totals import EnergyTotals, MeteredDevice

PROMTOOL: Final = shutil.which("promtool")
needs_promtool: Final = pytest.mark.skipif(
    PROMTOOL is None, reason="no promtool on the path (Debian: apt-get install prometheus)"
)
#: Between two scrapes, in seconds.
SCRAPE_S: Final = 60
#: Of the lower and the upper bound to the point.
LOWER: Final = 0.5
UPPER: Final = 1.5


@dataclass(frozen=True)
class AgentSeries:
    """One agent whose workloads draw constant watts.

    Args:
        node: its name.
        watts: of each workload's CPUs.
        idle_watts: of the node.
    """

    node: str
    watts: Mapping[PodOwner, float]
    idle_watts: float = 10.0

    def samples(self, seconds: float) -> Iterator[Sample]:
        """Yield all samples, so many seconds after the agent's start."""
        for family in self.families(seconds):
            yield from family.samples

    def families(self, seconds: float) -> Iterator[Metric]:
        """Return the same, as they are scraped, by the agent's own code."""
        sums = {
            (owner, EnergyKind.ALLOCATED): EnergySum(*(watts * factor * seconds for factor in (1.0, LOWER, UPPER)))
            for owner, watts in self.watts.items()
        }
        totals = EnergyTotals(sums, self.idle_watts * seconds, 0.0, unknown_seconds=0.01 * seconds)
        added_up: Any = SimpleNamespace(totals={MeteredDevice.CPU: totals}, missing={})
        return energy_families(self.node, added_up)


@dataclass
class PastSeries:
    """Samples of a time that is over, for `promtool tsdb create-blocks-from`."""

    _lines: dict[str, list[str]] = field(default_factory=dict)

    def add(self, samples: Iterable[Sample], at_s: float) -> None:
        """Add the samples of one scrape."""
        for sample in samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            self._lines.setdefault(sample.name, []).append(f"{sample.name}{{{labels}}} {sample.value} {at_s:.3f}\n")

    def add_agent(self, series: AgentSeries, begin_s: float, end_s: float) -> None:
        """Add the scrapes of an agent that starts at `begin_s`."""
        for number in range(int((end_s - begin_s) // SCRAPE_S) + 1):
            seconds = number * SCRAPE_S
            self.add(series.samples(seconds), begin_s + seconds)

    async def store(self, directory: Path) -> None:
        """Write the blocks of a Prometheus that has not started, which is `PrometheusServer` in this directory."""
        assert PROMTOOL is not None
        text = directory / "past.txt"
        text.write_text("".join(line for lines in self._lines.values() for line in lines) + "# EOF\n")
        process = await asyncio.create_subprocess_exec(
            PROMTOOL, "tsdb", "create-blocks-from", "openmetrics", str(text), str(directory / "tsdb"),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        out, _ = await process.communicate()
        assert process.returncode == 0, out.decode()
