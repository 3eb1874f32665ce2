"""Current CPU frequencies, read a few at a time.

Older x86 kernels (before 2022) wake the CPU and sleep 10 to 20 ms whenever its `scaling_cur_freq` is read: hundreds of
policies would keep the CPUs' executor busy for seconds, and delay the caps. So each sample reads what fits into a
budget of time, at least one policy, and the next sample goes on from there. A value may be some samples old.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from joulie_actuator.hardware.cpufreq import CpuPolicy
from joulie_actuator.hardware.knob import HardwareFailure

#: Seconds that one sample may take; enough for 1,000 policies of a kernel that answers at once.
BUDGET_S: Final = 0.02


@dataclass(slots=True)
class FrequencySampler:
    """The current frequencies of the policies, as last read."""

    #: Monotonic seconds.
    clock: Callable[[], float]
    _frequencies: dict[str, int | None] = field(default_factory=dict)
    _next: int = 0

    def sample(self, policies: Sequence[CpuPolicy]) -> Mapping[str, int | None]:
        """Read as many policies as the budget allows; return kHz by policy name, None where unknown."""
        self._frequencies = {policy.name: self._frequencies.get(policy.name) for policy in policies}
        deadline = self.clock() + BUDGET_S
        for _ in policies:
            policy = policies[self._next % len(policies)]
            self._next = (self._next + 1) % len(policies)
            frequency = policy.current_khz()
            self._frequencies[policy.name] = None if isinstance(frequency, HardwareFailure) else frequency
            if self.clock() >= deadline:
                break
        return self._frequencies
