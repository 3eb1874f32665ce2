"""Makes the backends of a route.

A control or source that cannot work here is a backend that refuses with the reason, so that enforcement needs no checks
of its own. Subsystems that are routed to the same endpoint share one reading.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from joulie_actuator.reasons import Reason
from joulie_agent.backends.base import CpuActuator, GpuActuator, PowerBackend, ReadingSource
from joulie_agent.backends.http import HttpActuator, HttpSource
from joulie_agent.backends.prometheus import PrometheusSource
from joulie_agent.backends.refusing import RefusingBackend
from joulie_agent.backends.transport import HttpTarget, HttpTransport
from joulie_api.prometheus import QUERY_PATH
from joulie_core.control.telemetry_route import Route, endpoint_url
from joulie_core.control_result import ControlResult
from joulie_core.kinds.node_hardware import Capabilities
from joulie_core.kinds.telemetry_profile import (
    ControlPlace,
    ControlType,
    CpuControl,
    CpuControlMode,
    GpuControl,
    HttpEndpoint,
    SourceType,
    TelemetrySource,
)
from joulie_core.names import NodeName

TELEMETRY_PATH: Final = "/telemetry/{node}"
CONTROL_PATH: Final = "/control/{node}"
_OFF: Final = RefusingBackend(Reason.TURNED_OFF, "turned off by the routing", result=ControlResult.NONE)
#: A Prometheus source has no timeout of its own in the TelemetryProfile.
_QUERY_TIMEOUT_S: Final = 5.0
_LIVE: Final = frozenset({SourceType.HOST, SourceType.HTTP})


@dataclass(frozen=True, slots=True)
class NodeBackends:
    """The backends of one node. Both sources are the same object where one answer serves both."""

    route: Route
    cpu_source: ReadingSource
    gpu_source: ReadingSource
    cpu: CpuActuator
    gpu: GpuActuator
    cpu_mode: CpuControlMode
    capabilities: Capabilities
    #: Changes when the controls go elsewhere; then what is in force at the old place is released.
    cpu_address: str
    gpu_address: str
    #: Whether CPU power is measured at the request. Prometheus returns the last scrape: more requests than one per
    #: tick bring nothing new.
    cpu_source_is_live: bool
    #: The same of the GPUs.
    gpu_source_is_live: bool


class BackendFactory:
    """Makes backends. `host` returns the host backend of a node, or one that refuses with the reason."""

    def __init__(self, transport: HttpTransport, host: Callable[[NodeName], PowerBackend]) -> None:
        self._transport = transport
        self._host = host

    def build(self, node: NodeName, route: Route) -> NodeBackends:
        """Return the backends for a node."""
        host = self._host(node)
        cpu_source = self._source(node, route.cpu_source, host, gpu=False)
        gpu_source = self._source(node, route.gpu_source, host, gpu=True)
        cpu, gpu = self._actuator(node, route.cpu_control, host), self._actuator(node, route.gpu_control, host)
        shared = route.gpu_source == route.cpu_source and route.cpu_source.type is not SourceType.PROMETHEUS
        return NodeBackends(
            route=route,
            cpu_source=cpu_source,
            gpu_source=cpu_source if shared else gpu_source,
            cpu=cpu,
            gpu=gpu,
            cpu_mode=route.cpu_control.mode,
            capabilities=Capabilities(
                cpu_control=_works(cpu),
                gpu_control=_works(gpu),
                cpu_telemetry=_works(cpu_source),
                gpu_telemetry=_works(gpu_source),
            ),
            cpu_address=control_address(node, route.cpu_control),
            gpu_address=control_address(node, route.gpu_control),
            cpu_source_is_live=route.cpu_source.type in _LIVE,
            gpu_source_is_live=route.gpu_source.type in _LIVE,
        )

    def _source(self, node: NodeName, source: TelemetrySource, host: PowerBackend, *, gpu: bool) -> ReadingSource:
        match source.type:
            case SourceType.NONE:
                return _OFF
            case SourceType.HOST:
                return host
            case SourceType.HTTP:
                if source.http is None:
                    return _missing("sources", "http")
                return HttpSource(self._transport, _target(node, source.http, TELEMETRY_PATH))
            case SourceType.PROMETHEUS:
                if source.prometheus is None:
                    return _missing("sources", "prometheus")
                target = HttpTarget(_query_url(source.prometheus.endpoint, node), _QUERY_TIMEOUT_S)
                query = source.prometheus.query.replace("{node}", node)
                return PrometheusSource(self._transport, target, query, gpu=gpu)

    def _actuator(
        self, node: NodeName, control: CpuControl | GpuControl, host: PowerBackend
    ) -> HttpActuator | PowerBackend:
        match control.type:
            case ControlType.NONE:
                return _OFF
            case ControlType.HOST:
                return host
            case ControlType.HTTP:
                if control.http is None:
                    return _missing("controls", "http")
                return HttpActuator(self._transport, _target(node, control.http, CONTROL_PATH), node)


def _works(backend: object) -> bool:
    return not isinstance(backend, RefusingBackend)


def _target(node: NodeName, http: HttpEndpoint, path: str) -> HttpTarget:
    return HttpTarget(
        url=endpoint_url(http.endpoint, node, path),
        timeout_s=float(http.timeout_seconds),
        headers_secret=http.headers_secret_ref.name if http.headers_secret_ref else None,
    )


def _query_url(endpoint: str, node: NodeName) -> str:
    """Return the URL of instant queries; the address of a Prometheus may have a path prefix."""
    base = endpoint.rstrip("/")
    return endpoint_url(base if base.endswith(QUERY_PATH) else base + QUERY_PATH, node, QUERY_PATH)


def control_address(node: NodeName, control: CpuControl | GpuControl | ControlPlace) -> str:
    """Return the URL, or the type, that identifies a place of a node's controls."""
    if control.type is ControlType.HTTP and control.http is not None:
        return endpoint_url(control.http.endpoint, node, CONTROL_PATH)
    return control.type.value


def _missing(stanza_of: str, stanza: str) -> RefusingBackend:
    return RefusingBackend(Reason.BAD_ENDPOINT, f"{stanza_of} of type {stanza} without the stanza {stanza}")
