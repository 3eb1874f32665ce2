"""The resource manager: its parts, and what connects them."""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
import structlog

from joulie_actuator.cpu_class_protocol import CpuClassState
from joulie_actuator.hardware.sysfs import SysfsTree
from joulie_api.metrics import Registry
from joulie_containers.nri.connection import NriConnection, NriState, nri_endpoint
from joulie_containers.nri.handler import RuntimeInfo
from joulie_containers.resource_api.proto import resource_api_pb2 as pb
from joulie_containers.resource_api.transport import InvalidCallError
from joulie_containers.resources.adjustments import Adjustments
from joulie_containers.resources.cache import Cache
from joulie_containers.resources.class_events import ClassEvents
from joulie_containers.resources.configuration import (
    ActiveConfig,
    Configuration,
    ConfigurationSource,
    InvalidConfigurationError,
    PolicyHost,
)
from joulie_containers.resources.controllers import CreationControllers, values_of
from joulie_containers.resources.core_limit_enforcement import CoreLimitEnforcement
from joulie_containers.resources.core_limit_events import CoreLimitEvents
from joulie_containers.resources.core_limits import CoreLimits, core_holders
from joulie_containers.resources.cpu_classes import CpuClassController
from joulie_containers.resources.engine import Configured, PlacementEngine
from joulie_containers.resources.hints import HintSource
from joulie_containers.resources.interrupts import InterruptController
from joulie_containers.resources.ledger import Ledger
from joulie_containers.resources.metrics import ManagerCounts, PipelineDurations, register_series
from joulie_containers.resources.pipeline import Pipeline
from joulie_containers.resources.pod_consents import PodConsents
from joulie_containers.resources.registry import policy_definition
from joulie_containers.resources.renewal import RequestExecutor
from joulie_containers.resources.reports import DecisionReports, EventRecorder
from joulie_containers.resources.resource_file_directory import ResourceFileDirectory
from joulie_containers.resources.resource_files import ResourceFiles
from joulie_containers.resources.settings import ResourcesSettings
from joulie_containers.resources.translate import ContainerReader, memory_bytes
from joulie_containers.resources.updates import Updater, nothing_to_settle
from joulie_containers.resources.usage import UsageReader
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_core.class_caps.core_limits import CoreHolder
from joulie_core.containers.container import ContainerId, ContainerInfo
from joulie_core.containers.idset import Cpus
from joulie_core.containers.policy import PowerProfileChanged, RebalanceRequested
from joulie_core.containers.topology import HardwareTopology
from joulie_core.kinds.balloons_policy import BalloonsPolicySpec
from joulie_core.kinds.base import Profile
from joulie_core.kinds.container_policy import PlacementPolicySpec
from joulie_core.kinds.cpu_class import cpu_class_resource

#: A handler that is busy for so many timeouts of the runtime will not end.
_HUNG_TIMEOUTS: Final = 2

_log = structlog.get_logger()


class ResourceManager:
    """Everything that one process holds. It serves the config interface (`ConfigService`).

    Args:
        settings: of the process.
        topology: the node.
        registry: takes the metrics.
        actuator: applies CPU classes and moves interrupts; None without one.
        core_actuator: sets limits of cores by class, and has no other requests; None where they are shown only.
        recorder: records Events; None without a node agent.
    """

    def __init__(
        self,
        settings: ResourcesSettings,
        topology: HardwareTopology,
        registry: Registry,
        *,
        actuator: RequestExecutor | None,
        recorder: EventRecorder | None,
        core_actuator: RequestExecutor | None = None,
    ) -> None:
        self._settings = settings
        self._sys = SysfsTree(Path(settings.host_root) / "sys")
        hints = HintSource(self._sys, topology)
        self._reader = ContainerReader(hints, memory_bytes(topology))
        self.counts = ManagerCounts()
        self.usage_milli: Mapping[ContainerId, int] = {}
        self.classes = CpuClassController(actuator, lease_s=settings.cpu_class_lease)
        self.interrupts = InterruptController(actuator, lease_s=settings.cpu_class_lease)
        self.reports = DecisionReports(self.counts, self.classes, self.interrupts, recorder)
        self._class_events = ClassEvents(self.reports.tell)
        self.classes.on_report = self._on_class_report
        self.cache = Cache(Path(settings.state_dir))
        ledger = Ledger(time.monotonic)
        self._adjustments = Adjustments(settings.node_name)
        self._extended_resources: Mapping[str, int] = {}
        self._controllers = CreationControllers(Path(settings.host_root))
        self.engine = PlacementEngine(
            ledger,
            self.cache,
            self.reports,
            values_of,
            self._adjustments.adjusted,
            classes_of=self._controllers.classes_of,
        )
        self.pod_consents = PodConsents()
        self._core_limit_events = CoreLimitEvents(self.reports.tell, self.pod_consents.of)
        self.core_limits = CoreLimits(self._sys, topology, self._core_holders)
        self.core_enforcement: CoreLimitEnforcement | None = None
        if core_actuator is not None:
            self.core_enforcement = CoreLimitEnforcement(
                core_actuator, self.core_limits, self._all_placed, on_late=self._on_late_limits
            )
        settle = nothing_to_settle if self.core_enforcement is None else self.core_enforcement.settle
        self.files: ResourceFiles | None = None
        if settings.export_host_dir:
            directory = ResourceFileDirectory(Path(settings.state_dir))
            self.files = ResourceFiles(self.engine, directory, Path(settings.export_host_dir), topology)
            ledger.on_change = self.files.wake
        self.pipeline = Pipeline(
            self.engine,
            self._reader,
            self._controllers,
            PipelineDurations(registry, self.counts),
            on_deadline=settings.on_deadline,
            on_configure=self._on_configure,
            updates_wanted=self._wake_updater,
            files=self.files,
            before_reply=settle,
        )
        endpoint = nri_endpoint(
            os.environ, path=Path(settings.nri_socket), name=settings.plugin_name, index=settings.plugin_index
        )
        self.connection = NriConnection(self.pipeline, endpoint)
        self.updater = Updater(ledger, self.connection, self._title, settle)
        self.reports.on_event = self.pipeline.policy_event
        self.configuration = Configuration(
            policy_definition(settings.policy),
            PolicyHost(topology=topology, close_cpus=hints.close_cpus),
            self._apply,
            file=Path(settings.config_file) if settings.config_file else None,
        )
        self._usage = UsageReader(Path(settings.host_root))
        register_series(registry, self)

    @property
    def runtime_state(self) -> NriState:
        """The connection to the runtime."""
        return self.connection.state

    @property
    def configuration_problem(self) -> str | None:
        """Reason why the newest configuration is not in force; None where it is."""
        return self.configuration.problem

    async def start(self) -> None:
        """Read the cache and put the first configuration in force.

        Raises:
            InvalidConfigurationError: not even the default can be used on this node.
        """
        content = self.cache.load()
        if content is not None:
            self.engine.restore(content)
        await self.configuration.start(content.configuration if content else None)

    async def use_topology(self, topology: HardwareTopology) -> None:
        """Place containers on changed hardware."""
        hints = HintSource(self._sys, topology)
        self._reader.use_host(hints, memory_bytes(topology))
        self.core_limits.use_topology(topology)
        if self.files is not None:
            self.files.use_topology(topology)
        await self.configuration.use_host(PolicyHost(topology=topology, close_cpus=hints.close_cpus))

    def not_registered(self) -> str | None:
        """Return why the plugin is not registered; None where it is. For readiness."""
        state = self.connection.state
        return None if state.registered else state.failure or "not registered with the container runtime"

    def hung(self) -> str | None:
        """Return which request hangs; None without one. For liveness."""
        oldest, runtime = self.connection.state.oldest_request, self.connection.state.runtime
        if oldest is None or runtime is None:
            return None
        busy_s = asyncio.get_running_loop().time() - oldest
        limit_s = _HUNG_TIMEOUTS * runtime.request_timeout_s
        return f"a request is in progress for {busy_s:.1f} s" if busy_s > limit_s else None

    async def poll_usage(self) -> None:
        """Read the usage of containers until cancelled, and let the policy rebalance where that is configured."""
        next_rebalance = time.monotonic() + self._settings.rebalance_interval
        while True:
            await asyncio.sleep(self._settings.usage_interval)
            now = time.monotonic()
            self.usage_milli = await asyncio.to_thread(self._usage.read, self.pipeline.cgroups, now)
            if self._settings.rebalance_interval and now >= next_rebalance and self.usage_milli:
                next_rebalance = now + self._settings.rebalance_interval
                await self.pipeline.policy_event(RebalanceRequested(self.usage_milli))

    # The config interface

    async def set_config(self, request: pb.SetConfigRequest) -> pb.SetConfigReply:
        """Apply a manifest of the cluster; without one the last configuration stays in force."""
        self._check_node(request.node_name)
        if not request.manifest:
            return pb.SetConfigReply()
        try:
            ignored = await self.configuration.push(ConfigurationSource.CLUSTER, request.manifest)
        except InvalidConfigurationError as error:
            return pb.SetConfigReply(error=str(error))
        return pb.SetConfigReply(ignored=ignored)

    async def set_adjustments(self, request: pb.SetAdjustmentsRequest) -> pb.SetAdjustmentsReply:
        """Apply exactly these adjustments."""
        self._check_node(request.node_name)
        wrong = self._adjustments.replace(request.adjustments)
        errors: dict[str, dict[str, str]] = {name: {"": why} for name, why in wrong.items()}
        not_placed = await self.pipeline.adjust()
        for container in self.engine.originals.values():
            problems = {**self._class_problems(container), **self._adjustments.problems(container)}
            if (reason := not_placed.get(container.id)) is not None:
                problems |= dict.fromkeys(self._adjustments.of(container), reason)
            for name, why in problems.items():
                errors.setdefault(name, {})[container.title] = why
        return pb.SetAdjustmentsReply(errors={name: pb.AdjustmentErrors(errors=each) for name, each in errors.items()})

    async def set_power_profile(self, request: pb.SetPowerProfileRequest) -> pb.Nothing:
        """Let the policy react to the node's power profile."""
        try:
            profile = Profile(request.profile)
        except ValueError:
            valid = ", ".join(Profile)
            raise InvalidCallError(f"profile: {request.profile!r} is not one of {valid}") from None
        await self.pipeline.policy_event(PowerProfileChanged(profile))
        return pb.Nothing()

    async def set_pod_consents(self, request: pb.SetPodConsentsRequest) -> pb.Nothing:
        """Note how much longer each pod may run; limits of cores follow with their next step."""
        self._check_node(request.node_name)
        self.pod_consents.tell(request.pods)
        return pb.Nothing()

    async def get_status(self, request: pb.Nothing) -> pb.ManagerStatus:
        """Return what is in force."""
        del request
        active = self.configuration.active
        return pb.ManagerStatus(
            node_name=self._settings.node_name,
            registered=self.connection.state.registered,
            problem=self.not_registered() or "",
            configuration=pb.ActiveConfiguration(
                policy=self._settings.policy,
                source=active.source if active else "",
                error=self.configuration.problem or "",
                manifest=msgspec.json.encode(active.manifest).decode() if active else "",
            ),
            zones=[
                pb.Zone(
                    name=zone.name,
                    kind=zone.kind,
                    parent=zone.parent,
                    cpus=str(zone.cpus),
                    shared_idle=str(zone.shared_idle),
                    memory=str(zone.memory),
                    capacity_milli=zone.capacity_milli,
                    allocatable_milli=zone.allocatable_milli,
                    available_milli=zone.available_milli,
                    containers=[self._zone_container(name) for name in zone.containers],
                    attributes=zone.attributes,
                    show_containers=zone.show_containers,
                )
                for zone in self.engine.zones
            ],
            extended_resources=self._extended_resources,
            cpu_classes_problem=self.classes.shortfall or "",
            interrupts_problem=self.interrupts.problem or "",
        )

    def _check_node(self, name: str) -> None:
        if self._settings.node_name and name != self._settings.node_name:
            raise InvalidCallError(f"node_name: {name!r} is not this node, {self._settings.node_name!r}")

    def _zone_container(self, name: ContainerId) -> pb.ZoneContainer:
        info, placement = self.engine.containers[name], self.engine.placements[name]
        return pb.ZoneContainer(
            id=name,
            namespace=info.pod.namespace,
            pod=info.pod.name,
            name=info.name,
            cpus=str(placement.cpus or ""),
            memory=str(placement.memory or ""),
            request_milli=info.resources.cpu_request_milli,
        )

    def _class_problems(self, container: ContainerInfo) -> Mapping[str, str]:
        """Return which classes of adjustments a running container does not have, by the name of the adjustment."""
        created = self.engine.created_with(container.id)
        found = {
            name: "; ".join(self._controllers.class_problems(spec.classes, created))
            for name, spec in self._adjustments.of(container).items()
        }
        return {name: why for name, why in found.items() if why}

    # What the parts need of each other

    async def _apply(self, configured: Configured, active: ActiveConfig) -> None:
        spec = active.resource.spec
        if isinstance(spec, PlacementPolicySpec):
            self.classes.define(spec.classes_by_name)
            self.interrupts.define(spec.controllable_interrupts if isinstance(spec, BalloonsPolicySpec) else ())
            self._controllers.define(spec.control, spec.scheduling_classes)
            published = [each.name for each in spec.cpu_classes if each.publish_extended_resource]
            capacity = configured.policy.class_capacity()
            self._extended_resources = {cpu_class_resource(name): capacity.get(name, 0) for name in published}
        else:
            self._controllers.define(spec.control)
        await self.pipeline.apply(configured)

    async def _on_configure(self, runtime: RuntimeInfo) -> None:
        if not runtime.config:
            return
        try:
            await self.configuration.push(ConfigurationSource.RUNTIME, runtime.config)
        except InvalidConfigurationError as error:
            _log.warning("configuration of the runtime refused", problem=str(error))

    def _on_class_report(self, states: Mapping[str, CpuClassState]) -> None:
        self._class_events.note(states, self.engine.containers, self.engine.placements)

    def _on_late_limits(self, left: Mapping[Cpus, AllowedSlowdown]) -> None:
        self._core_limit_events.note(left, self.engine.containers, self.engine.placements)

    def _core_holders(self) -> Sequence[CoreHolder]:
        engine = self.engine
        return core_holders(engine.containers, engine.placements, self.pod_consents.of, engine.ledger.left_over)

    def _all_placed(self) -> bool:
        """Return whether the runtime asks before it creates containers, and each that may run is placed."""
        return self.connection.state.registered and self.engine.synchronized and not self.pipeline.has_unplaced

    def _wake_updater(self) -> None:
        self.updater.wake()

    def _title(self, name: ContainerId) -> str:
        info = self.engine.containers.get(name)
        return name if info is None else info.title
