"""Drive GPUs with a vendor's real package on command: one JSON object per line in, one out."""

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from joulie_actuator.hardware.gpu.amdsmi import AmdSmiLibrary
from joulie_actuator.hardware.gpu.device_calls import GpuDeadlines
from joulie_actuator.hardware.gpu.driver import GpuDriver, JournaledClock
from joulie_actuator.hardware.gpu.library import GpuLibrary
from joulie_actuator.hardware.gpu.library_driver import LibraryDriver
from joulie_actuator.hardware.gpu.nvml import NvmlLibrary
from joulie_actuator.hardware.knob import HardwareFailure, Knob
from joulie_testing.agent.fake_gpu import power_mw


class Server:
    """A driver and the knobs that were taken from it, each kept for good as the agent keeps them."""

    def __init__(self, driver: GpuDriver) -> None:
        self._driver = driver
        self._knobs: dict[str, Knob] = {}

    def answer(self, *, operation: str, uuid: str, value: int) -> Any:
        """Do something and return its answer as JSON has it."""
        driver = self._driver
        operations: dict[str, Callable[[], Any]] = {
            "close": driver.close,
            "devices": driver.devices,
            "power": lambda: power_mw(driver, uuid),
            "energy": lambda: driver.energy_mj(uuid),
            "processes": lambda: driver.process_ids(uuid),
            "enforced": lambda: driver.enforced_mw(uuid),
            "generation": lambda: driver.generation,
            "knob": lambda: self._with_knob(uuid, _describe),
            "read": lambda: self._with_knob(uuid, lambda knob: knob.read()),
            "write": lambda: self._with_knob(uuid, lambda knob: knob.write(value)),
            "clock": lambda: self._with_clock(uuid, lambda knob: knob.read()),
            "limit_clock": lambda: self._with_clock(uuid, lambda knob: knob.write(value)),
            "clock_bound": lambda: self._clock_bound(uuid, value),
            "clock_is_free": lambda: driver.check_clock_is_free(uuid),
            "modules": lambda: sorted({name.partition(".")[0] for name in sys.modules}),
        }
        answer = operations[operation]()
        if isinstance(answer, HardwareFailure):
            return asdict(answer)
        return [asdict(each) for each in answer] if operation == "devices" else answer

    def _clock_bound(self, uuid: str, limit_mhz: int) -> Any:
        """Return what bounds a clock; a limit above 0 is in the journal."""
        reading = self._driver.read(uuid, JournaledClock(limit_mhz, limit_mhz) if limit_mhz else None)
        return reading if isinstance(reading, HardwareFailure) else reading.clock_bound

    def _with_knob(self, uuid: str, act: Callable[[Knob], Any]) -> Any:
        knob = self._knobs.get(uuid) or self._driver.power_limit(uuid)
        if isinstance(knob, HardwareFailure):
            return knob
        self._knobs[uuid] = knob
        return act(knob)

    def _with_clock(self, uuid: str, act: Callable[[Knob], Any]) -> Any:
        knob = self._driver.clock_limit(uuid, None)
        return knob if isinstance(knob, HardwareFailure) else act(knob)


def _describe(knob: Knob) -> dict[str, Any]:
    return {"key": knob.key, "unit": knob.unit, **asdict(knob.limits)}


def main(vendor: str, deadline_s: float) -> None:
    """Serve until the input ends."""
    library: GpuLibrary = NvmlLibrary() if vendor == "nvml" else AmdSmiLibrary()
    deadlines = GpuDeadlines(open_wait_s=20, device_open_s=5, call_s=deadline_s or 20)
    server = Server(LibraryDriver(library, deadlines=deadlines))
    for line in sys.stdin:
        print(json.dumps(server.answer(**json.loads(line))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
