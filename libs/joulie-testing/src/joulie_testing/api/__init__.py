"""Test support for Joulie's services: an in-process API server, its faults, and builders of objects.

Shipped with the library, so that every service is tested against the same behaviour. pytest fixtures are in
`joulie_testing.api.fixtures`, which is the only module here that needs pytest.
"""

from joulie_testing.api.builders import (
    make_node,
    make_node_bmc,
    make_node_hardware,
    make_node_power_budget,
    make_node_power_profile,
    make_node_twin,
    make_pod,
    make_power_domain,
    make_power_event,
    make_telemetry_profile,
)
from joulie_testing.api.devices import claiming, dra_definitions, make_claim, make_device_class
from joulie_testing.api.faults import (
    CutMidLine,
    Delay,
    Disconnect,
    EndStream,
    HalfOpen,
    Inject,
    Respond,
    conflicting_apply,
    expired_event,
)
from joulie_testing.api.request_log import Request
from joulie_testing.api.server import FakeApiServer

__all__ = [
    "CutMidLine",
    "Delay",
    "Disconnect",
    "EndStream",
    "FakeApiServer",
    "HalfOpen",
    "Inject",
    "Request",
    "Respond",
    "claiming",
    "conflicting_apply",
    "dra_definitions",
    "expired_event",
    "make_claim",
    "make_device_class",
    "make_node",
    "make_node_bmc",
    "make_node_hardware",
    "make_node_power_budget",
    "make_node_power_profile",
    "make_node_twin",
    "make_pod",
    "make_power_domain",
    "make_power_event",
    "make_telemetry_profile",
]
