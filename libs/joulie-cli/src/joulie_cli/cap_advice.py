"""The way out for each reason of a cap that is not in force. docs/hardware.md explains the reasons."""

from collections.abc import Mapping
from typing import Final

_SEE: Final = "docs/hardware.md explains the reason"
_BY_REASON: Final[Mapping[str, str]] = {
    "FirmwareLocked": "unlock power limits in the firmware of the node, or set spec.controls.cpu.mode to dvfs in its "
    "TelemetryProfile",
    "HeldByFirmware": "the firmware holds another limit: lower its own cap, or accept the one in enforcedWatts",
    "NotPermitted": "give the actuator its rights: agent.actuator values of the chart (hsmp, nvidia, amd, "
    "seLinuxOptions)",
    "NoInterface": "load the driver (intel_rapl_msr, amd_hsmp, cpufreq) on the node, or use an HTTP backend",
    "NoHostInterface": "use an HTTP backend: spec.controls of the node's TelemetryProfile",
    "NoCapRange": "the range of the hardware is unknown: configure the cap in watts instead of percent",
    "NoDevice": "if the node has the hardware, check its driver; kubectl get nodehardware NODE -o yaml",
    "TurnedOff": "spec.controls of the node's TelemetryProfile turns it off: change its type if that is not intended",
    "HostInPool": "pool agents do not act on their own machine: set an HTTP backend in the TelemetryProfile, or use "
    "the daemonset mode",
    "SimulateOnly": "remove SIMULATE_ONLY from agent.env",
    "NoJournal": "make agent.actuator.hostStatePath writable: originals cannot be recorded",
    "Saturated": "the power is above the cap at full throttle: raise the cap",
    "NoReading": "check the source of readings: spec.sources of the node's TelemetryProfile",
    "OutOfRange": "choose a cap within the range in the NodeHardware of the node",
    "PartlyApplied": "not all CPU packages or GPUs take the cap: see the message with kubectl joulie profile NODE",
    "NotReleased": "an earlier control may still be in force: see the message with kubectl joulie profile NODE",
    "Refused": "the HTTP backend declines: see its log",
    "BackendFailed": "see the log of the backend, or of the agent on that node",
    "DeviceLost": "a device no longer answers: see the kernel's log of the node",
    "IoError": "the kernel failed to read or write the value: see the kernel's log of the node",
    "NotFound": "the HTTP backend does not know the node: check the endpoint in its TelemetryProfile",
    "HttpStatus": "see the log of the HTTP backend",
    "Timeout": "the HTTP backend does not answer in time: check it, or raise timeoutSeconds in the TelemetryProfile",
    "Unreachable": "check the endpoint in the TelemetryProfile, the network and its policies",
    "MalformedReply": "the HTTP backend answers what the agent cannot read: compare it with docs/hardware.md",
    "BadEndpoint": "correct the endpoint in the TelemetryProfile",
    "BadSecret": "check the Secret of headersSecretRef, and agent.headersSecrets of the chart",
}
KNOWN_REASONS: Final = frozenset(_BY_REASON)


def cap_advice(reason: str) -> str:
    """Return the way out for a reason."""
    return _BY_REASON.get(reason, _SEE)
