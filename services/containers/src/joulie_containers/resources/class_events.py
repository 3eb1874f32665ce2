"""Events of pods whose CPUs have a CPU class that the hardware does not serve."""

from collections.abc import Callable, Mapping
from typing import Final

from joulie_actuator.cpu_class_protocol import CpuClassState
from joulie_core.containers.container import ContainerId, ContainerInfo
from joulie_core.containers.idset import EMPTY, Cpus
from joulie_core.containers.policy import Placement

NOT_IN_FORCE: Final = "CpuClassNotInForce"


class ClassEvents:
    """Tells each container once what of the class of its CPUs is not in force, and again where that changes.

    Args:
        record: records an Event about a container, with its reason and message.
    """

    def __init__(self, record: Callable[[ContainerInfo, str, str], None]) -> None:
        self._record = record
        self._told: Mapping[tuple[ContainerId, str], str] = {}

    def note(
        self,
        states: Mapping[str, CpuClassState],
        containers: Mapping[ContainerId, ContainerInfo],
        placements: Mapping[ContainerId, Placement],
    ) -> None:
        """Compare what is in force with what was told.

        Args:
            states: What the actuator has reported, by class.
            containers: All containers.
            placements: Their CPUs.
        """
        unmet = [
            (name, Cpus.parse(each.cpus), f"{each.control}: {each.message}")
            for name, state in states.items()
            for each in state.unmet
        ]
        found: dict[tuple[ContainerId, str], list[str]] = {}
        for container, placement in placements.items() if unmet else ():
            for name, cpus, text in unmet:
                if not cpus.isdisjoint(placement.cpus or EMPTY):
                    found.setdefault((container, name), []).append(text)
        # Without CPUs, which change whenever a balloon is resized.
        told = {key: "; ".join(texts) for key, texts in found.items()}
        for (container, name), text in told.items():
            if self._told.get((container, name)) != text and container in containers:
                self._record(containers[container], NOT_IN_FORCE, f"CPU class {name} is not in force: {text}")
        self._told = told
