"""The tables of a day, as text: the comparison of both arms, and the day by the hour. No I/O."""

from collections.abc import Iterable, Sequence
from typing import Final

from joulie_sim.demo.day.accounts import ArmDay, mean_over, sampling_error_pct, waits_for_sleep_s
from joulie_sim.demo.day.scale import DAY_S
from joulie_sim.demo.record import energy_kwh
from joulie_sim.demo.sleeping.power import Power
from joulie_sim.demo.sleeping.settings import SERVERS
from joulie_sim.demo.time_scale import TimeScale
from joulie_sim.pod_figures import WaitFigures, percentile
from joulie_sim.tables import TextTable

#: A pod that a node has to boot for shall wait no longer than the boot and this, because of sleep.
ALLOWANCE_S: Final = 60.0
_MINUTE_S: Final = 60.0
_HOUR_S: Final = 3600.0
_KILO: Final = 1000.0
#: What watches, passes of services, kube-scheduler's back-off and a busy machine may take of the clock.
_SLACK_CLOCK_S: Final = 3.0


def compared_until_s(arms: Sequence[ArmDay]) -> float:
    """Return the end of the time over which energies are compared: midnight, or when the last pod of an arm ended."""
    ended = [arm.ended_s if arm.ended_s is not None else arm.samples[-1].at_s for arm in arms]
    return max(DAY_S, *ended)


def comparison(awake: ArmDay, asleep: ArmDay, scale: TimeScale) -> TextTable:
    """Return the table of both arms: energy, nodes, pods and their waits."""
    end_s = compared_until_s((awake, asleep))
    arms = (awake, asleep)
    energies = [energy_kwh(arm.samples, end_s) for arm in arms]
    totals = [sum(found.values()) for found in energies]
    waits = [WaitFigures.of(pod.wait_s for pod in arm.pods.values()) for arm in arms]
    extra_s = waits_for_sleep_s(asleep.pods, awake.pods).values()
    extra = WaitFigures.of(extra_s)
    # That of the slowest servers, since any may be the one that is needed.
    bar_s = max(SERVERS.boot_s, SERVERS.gpu_boot_s) + ALLOWANCE_S
    slack_s = scale.simulated_s(_SLACK_CLOCK_S)
    rows: list[tuple[str, ...]] = [
        ("energy at the wall, kWh", *(f"{total:.1f}" for total in totals)),
        ("saved", "-", f"{100.0 * (1.0 - totals[1] / totals[0]):.1f} %"),
        *(
            (f"energy of servers that are {power.value}, kWh", *(f"{found[power]:.1f}" for found in energies))
            for power in Power
        ),
        ("highest power, kW", *(f"{max(each.watts for each in arm.samples) / _KILO:.1f}" for arm in arms)),
        ("nodes asleep, mean and most", *(_asleep(arm) for arm in arms)),
        ("power-offs", *(str(arm.power_offs) for arm in arms)),
        ("nodes woken", *(str(len(arm.wakes_s)) for arm in arms)),
        ("from the decision to wake until a node takes pods, median and p95, min", *(_wakes(arm) for arm in arms)),
        ("pods created", *(str(len(arm.pods)) for arm in arms)),
        ("pods completed", *(str(sum(pod.finished_s is not None for pod in arm.pods.values())) for arm in arms)),
        ("work completed, h", *(f"{_work_s(arm) / _HOUR_S:.1f}" for arm in arms)),
        ("last pod ended at, h", *("-" if arm.ended_s is None else f"{arm.ended_s / _HOUR_S:.2f}" for arm in arms)),
        ("mean slowdown", *(_number(arm.slowdown, 3) for arm in arms)),
        ("wait for a node, median, min", *(_minutes(found.median_s) for found in waits)),
        ("wait for a node, p95, min", *(_minutes(found.p95_s) for found in waits)),
        ("wait for a node, p99, min", *(_minutes(found.p99_s) for found in waits)),
        ("wait for a node, longest, min", *(_minutes(found.longest_s) for found in waits)),
        ("wait because of sleep, p95, min", "-", _minutes(extra.p95_s)),
        ("wait because of sleep, p99, min", "-", _minutes(extra.p99_s)),
        ("wait because of sleep, longest, min", "-", _minutes(extra.longest_s)),
        (
            f"pods that waited longer than boot and a minute ({bar_s / _MINUTE_S:.0f} min) because of sleep",
            "-",
            _over(extra_s, bar_s),
        ),
        (
            f"the same, with {_SLACK_CLOCK_S:.0f} s of the clock more ({(bar_s + slack_s) / _MINUTE_S:.0f} min)",
            "-",
            _over(extra_s, bar_s + slack_s),
        ),
        ("services restarted", *(str(arm.restarts) for arm in arms)),
        ("error of sampled energy", *(f"{sampling_error_pct(arm.samples):+.2f} %" for arm in arms)),
    ]
    header = ("times of the day", awake.title, asleep.title)
    return TextTable(header, rows, "the day")


def by_the_hour(awake: ArmDay, asleep: ArmDay) -> TextTable:
    """Return the table of hourly means: watts and pods pending of both arms, nodes by what they do with sleep."""
    header = (
        "hour",
        "kW without",
        "pending without",
        "kW with",
        "kW awake",
        "kW waking",
        "kW asleep",
        "nodes awake",
        "waking",
        "asleep",
        "pending with",
        "running with",
    )
    rows = []
    for hour in range(24):
        span = (hour * _HOUR_S, (hour + 1) * _HOUR_S)
        before, found = mean_over(awake.samples, *span), mean_over(asleep.samples, *span)
        if before is None or found is None:
            rows.append((f"{hour:02d}", *("-" for _ in header[1:])))
            continue
        rows.append(
            (
                f"{hour:02d}",
                f"{sum(before.watts.values()) / _KILO:.1f}",
                f"{before.pending:.1f}",
                f"{sum(found.watts.values()) / _KILO:.1f}",
                *(f"{found.watts[power] / _KILO:.2f}" for power in Power),
                *(f"{found.nodes[power]:.1f}" for power in Power),
                f"{found.pending:.1f}",
                f"{found.running:.0f}",
            )
        )
    return TextTable(header, rows, "means of each hour")


def scaling_note(scale: TimeScale) -> str:
    """Return what is scaled and what is not, for readers of the tables."""
    second_min = scale.simulated_s(1.0) / _MINUTE_S
    return (
        f"A second of the clock is {second_min:.1f} minutes of the day. Scaled are the work of pods, energy, arrivals, "
        f"boots ({SERVERS.boot_s / _MINUTE_S:.0f} min, of servers with GPUs {SERVERS.gpu_boot_s / _MINUTE_S:.0f} min), "
        f"power-offs ({SERVERS.off_s / _MINUTE_S:.0f} min) and the policy's times. Not scaled is what programs take: a "
        "second in which kube-scheduler tries a pod again, a service passes over its nodes or the machine is busy "
        "counts as that many minutes of the day."
    )


def _over(waits_s: Iterable[float], limit_s: float) -> str:
    return str(sum(wait_s > limit_s for wait_s in waits_s))


def _asleep(arm: ArmDay) -> str:
    counts = [sample.by_power[Power.ASLEEP].nodes for sample in arm.samples]
    return f"{sum(counts) / len(counts):.1f}, {max(counts)}"


def _wakes(arm: ArmDay) -> str:
    return (
        f"{_minutes(percentile(arm.wakes_s, 0.5))}, {_minutes(percentile(arm.wakes_s, 0.95))}" if arm.wakes_s else "-"
    )


def _work_s(arm: ArmDay) -> float:
    return sum(pod.work_s for pod in arm.pods.values() if pod.finished_s is not None)


def _minutes(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds / _MINUTE_S:.1f}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
