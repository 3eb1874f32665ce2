"""Memory and CPU time of the agent's two processes on a node.

    just bench agent                  ten minutes at one reconcile per second; the table, and CSV and PNG to out/
    just bench agent --minutes 2      a shorter run
    just bench agent --cores 64       a larger node; every logical CPU has a frequency policy, and is read
    just bench agent --dvfs           the DVFS loop at its own interval, all else every 20 s

`joulie-agent` and `joulie-agent actuator` run unmodified, with an API server in another process and a node made of
files: two sockets, eight GPUs behind NVIDIA's own Python package and a compiled stub of its library. The load varies,
the caps change each minute, and /metrics is scraped four times a minute. CPU time is what the kernel accounts to the
processes, so other load on the machine has little effect; their start is listed separately. Exit code 1 if a limit is
missed.
"""

import argparse
import csv
import multiprocessing
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from cluster import NODE, serve
from machine import Machine
from matplotlib.figure import Figure
from processes import Process, Usage, scrape, start

OUT = Path("out")
#: Limits of the project.
CONTROLLER_MIB, ACTUATOR_MIB, TOGETHER_CPU_PCT = 110.0, 40.0, 1.0
SETTLE_S = 10.0
SAMPLE_S = 5.0
SCRAPE_S = 15.0
NAMES = ("controller", "actuator")


@dataclass(frozen=True)
class Sample:
    """Both processes at one time, in the order of `NAMES`."""

    #: Seconds since the first sample.
    at_s: float
    usages: tuple[Usage, Usage]


@dataclass
class Table:
    """Rows with limits."""

    met: bool = True

    def row(self, what: str, value: float, unit: str, limit: float | None = None) -> None:
        """Print a value, and with a limit its share of it."""
        result = ""
        if limit is not None:
            result = f"{value / limit:5.2f} of {limit:g} {unit}  {'ok' if value < limit else 'MISSED'}"
            self.met &= value < limit
        print(f"{what:44} {value:9.3f} {unit:4} {result}", flush=True)


def watch(processes: Sequence[Process], seconds: float, progress: Callable[[Sample], None], port: int) -> list[Sample]:
    """Sample both processes for a while."""
    began_at = time.monotonic()
    samples: list[Sample] = []
    scrape_at = began_at
    while not samples or samples[-1].at_s < seconds:
        now = time.monotonic()
        samples.append(Sample(now - began_at, (processes[0].usage(), processes[1].usage())))
        progress(samples[-1])
        if now >= scrape_at:
            scrape(port)
            scrape_at += SCRAPE_S
        time.sleep(max(0.0, min(began_at + len(samples) * SAMPLE_S, began_at + seconds) - time.monotonic()))
    return samples


def cpu_pct(first: Sample, last: Sample, index: int) -> float:
    """CPU of one process between two samples, in percent of a core."""
    spent_s = last.usages[index].cpu_s - first.usages[index].cpu_s
    return 100 * spent_s / (last.at_s - first.at_s)


def print_results(samples: list[Sample], table: Table) -> None:
    """Print the table."""
    for index, (name, limit) in enumerate(zip(NAMES, (CONTROLLER_MIB, ACTUATOR_MIB), strict=True)):
        memory = [sample.usages[index].rss_mib for sample in samples]
        table.row(f"{name}: resident memory, at the start", memory[0], "MiB")
        table.row("    median", statistics.median(memory), "MiB")
        table.row("    most", max(memory), "MiB", limit)
        table.row("    proportional share (PSS), most", max(s.usages[index].pss_mib for s in samples), "MiB")
    cpu = [cpu_pct(samples[0], samples[-1], index) for index in range(2)]
    for name, value in zip(NAMES, cpu, strict=True):
        table.row(f"{name}: CPU", value, "%")
    table.row("together: CPU, of one core", sum(cpu), "%", TOGETHER_CPU_PCT)


def write(samples: list[Sample], directory: Path) -> tuple[Path, Path]:
    """Write the samples as CSV and draw them."""
    directory.mkdir(exist_ok=True)
    table, picture = directory / "agent-cost.csv", directory / "agent-cost.png"
    with table.open("w", newline="", encoding="ascii") as file:
        rows = csv.writer(file)
        columns = ("cpu_seconds", "rss_mib", "pss_mib")
        rows.writerow(["seconds", *(f"{name}_{column}" for name in NAMES for column in columns)])
        for sample in samples:
            figures = (f"{figure:.2f}" for use in sample.usages for figure in (use.cpu_s, use.rss_mib, use.pss_mib))
            rows.writerow([f"{sample.at_s:.2f}", *figures])
    figure = Figure(figsize=(9, 6))
    memory, cpu = figure.subplots(2, 1, sharex=True)
    times = [sample.at_s for sample in samples]
    limits = (CONTROLLER_MIB, ACTUATOR_MIB)
    for index, (name, color) in enumerate(zip(NAMES, ("tab:blue", "tab:orange"), strict=True)):
        memory.plot(times, [sample.usages[index].rss_mib for sample in samples], color=color, label=name)
        memory.axhline(limits[index], color=color, linestyle=":", label=f"{name}, limit")
        cpu.plot(times[1:], [cpu_pct(samples[0], each, index) for each in samples[1:]], color=color, label=name)
    together = [cpu_pct(samples[0], each, 0) + cpu_pct(samples[0], each, 1) for each in samples[1:]]
    cpu.plot(times[1:], together, color="black", label="together")
    cpu.axhline(TOGETHER_CPU_PCT, color="black", linestyle=":", label="together, limit")
    memory.set(ylabel="resident memory, MiB", ylim=(0, 1.5 * CONTROLLER_MIB), title="joulie-agent")
    highest_pct = max(TOGETHER_CPU_PCT, *together)
    cpu.set(xlabel="seconds", ylabel="CPU since the start, % of a core", ylim=(0, 1.5 * highest_pct))
    for axes in (memory, cpu):
        axes.grid(visible=True, alpha=0.3)
        axes.legend(ncols=2, loc="upper right")
    figure.savefig(picture, dpi=150, bbox_inches="tight")
    return table, picture


def run(options: argparse.Namespace) -> bool:
    """Run everything; True when all limits are met."""
    context = multiprocessing.get_context("spawn")
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="joulie-bench-")))
        channel, child_channel = context.Pipe()
        api = context.Process(target=serve, args=(options.toggle_s, directory, child_channel), daemon=True)
        api.start()
        stack.callback(_stop, api, channel)
        kubeconfig = channel.recv()
        machine = Machine(directory, options.cores)
        stack.enter_context(machine.under_load())
        socket = {"ACTUATOR_SOCKET": str(directory / "actuator.sock")}
        state = {"STATE_DIR": str(directory / "state")}
        actuator = stack.enter_context(start("actuator", ["actuator"], machine.environment | socket | state))
        actuator.wait_for("listening")
        env = {"AGENT_MODE": "daemonset", "NODE_NAME": NODE, "RECONCILE_INTERVAL": "1s", "METRICS_ADDR": "127.0.0.1:0"}
        if options.dvfs:
            env |= {"TELEMETRY_CPU_CONTROL_MODE": "dvfs", "RECONCILE_INTERVAL": "20s"}
        controller = stack.enter_context(start("controller", [], socket | env | {"KUBECONFIG": kubeconfig}))
        port = controller.wait_for("listening")["port"]
        assert isinstance(port, int)
        return _measure(options.minutes * 60, (controller, actuator), machine, channel, port)


def _measure(
    seconds: float, processes: tuple[Process, Process], machine: Machine, channel: Connection, port: int
) -> bool:
    print(f"{len(machine.spec.cpus())} logical CPUs, {seconds:g} s", flush=True)
    time.sleep(SETTLE_S)
    channel.send("writes")
    channel.recv()
    table = Table()
    for process in processes:
        table.row(f"{process.name}: CPU time to start, and {SETTLE_S:g} s", process.usage().cpu_s, "s")

    def progress(sample: Sample) -> None:
        rss = "  ".join(f"{name} {use.rss_mib:6.1f} MiB" for name, use in zip(NAMES, sample.usages, strict=True))
        cpu, gpu = machine.limits()
        spent = "  ".join(f"{use.cpu_s:7.2f}" for use in sample.usages)
        print(f"{sample.at_s:6.0f} s  {rss}  CPU s {spent}  limits {cpu:.0f} W, {gpu:.0f} W", flush=True)

    samples = watch(processes, seconds, progress, port)
    channel.send("writes")
    writes = channel.recv()
    print_results(samples, table)
    table.row("writes to the API server", 60 * writes.total() / samples[-1].at_s, "/min")
    print(*write(samples, OUT))
    return table.met


def _stop(api: multiprocessing.process.BaseProcess, channel: Connection) -> None:
    try:
        channel.send("stop")
    except OSError:  # it has ended, on Ctrl-C for one
        return
    api.join(10)


def main() -> int:
    """Run the bench; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10, help="how long to watch")
    parser.add_argument("--cores", type=int, default=8, help="cores per socket, of two threads each")
    parser.add_argument("--toggle-s", type=float, default=60, help="seconds between two changes of the caps")
    parser.add_argument("--dvfs", action="store_true", help="hold the CPUs by the DVFS loop, at the default intervals")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return 0 if run(options) else 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
