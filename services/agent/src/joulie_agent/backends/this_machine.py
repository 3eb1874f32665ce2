"""The backend of the machine that the agent runs on, by the settings."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from joulie_actuator.client import ActuatorClient, HardwareClient, InProcessActuator, structured_log
from joulie_actuator.reasons import Reason
from joulie_actuator.settings import ActuatorSettings
from joulie_actuator.subsystems import HostSubsystems
from joulie_agent.backends.base import PowerBackend
from joulie_agent.backends.host import CpuTuning, HostBackend, lease_s
from joulie_agent.backends.refusing import RefusingBackend
from joulie_agent.settings import AgentMode, AgentSettings, HardwareAccess
from joulie_core.hardware.inventory import Inventory
from joulie_core.units import KHZ_PER_MHZ


@asynccontextmanager
async def host_backend(settings: AgentSettings, inventory: Inventory) -> AsyncIterator[PowerBackend]:
    """Provide the backend of this machine's hardware, or one that refuses every request with the reason.

    Raises:
        JournalHeldError: `HARDWARE_ACCESS` is `in-process` and another process holds the state directory.
    """
    if settings.agent_mode is AgentMode.POOL:
        yield RefusingBackend(Reason.HOST_IN_POOL, "a pool agent does not act on the machine it runs on")
        return
    if settings.simulate_only:
        yield RefusingBackend(Reason.SIMULATE_ONLY, "SIMULATE_ONLY is set")
        return
    client = _hardware_client(settings)
    try:
        yield HostBackend(
            client,
            inventory,
            lease_s=lease_s(settings.reconcile_interval),
            tuning=_tuning(settings),
            clock_fallback=settings.gpu_clock_fallback,
        )
    finally:
        await client.close()


def _tuning(settings: AgentSettings) -> CpuTuning:
    uncore_max_khz = settings.eco_uncore_max_freq_mhz * KHZ_PER_MHZ
    return CpuTuning(epp=settings.eco_energy_performance_preference, uncore_max_khz=uncore_max_khz or None)


def _hardware_client(settings: AgentSettings) -> HardwareClient:
    """Return the client that carries out requests on this machine."""
    if settings.hardware_access is HardwareAccess.ACTUATOR:
        return ActuatorClient(settings.actuator_socket)
    local = ActuatorSettings(
        host_sys_root=settings.host_sys_root,
        host_proc_root=settings.host_proc_root,
        state_dir=settings.state_dir,
        dvfs_min_freq_khz=settings.dvfs_min_freq_khz,
    )
    return InProcessActuator(HostSubsystems(local, structured_log), stop_grace_s=local.actuator_stop_grace)
