from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Nothing(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SetConfigRequest(_message.Message):
    __slots__ = ("node_name", "manifest")
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    node_name: str
    manifest: str
    def __init__(self, node_name: _Optional[str] = ..., manifest: _Optional[str] = ...) -> None: ...

class SetConfigReply(_message.Message):
    __slots__ = ("error", "ignored")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    IGNORED_FIELD_NUMBER: _ClassVar[int]
    error: str
    ignored: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, error: _Optional[str] = ..., ignored: _Optional[_Iterable[str]] = ...) -> None: ...

class SetAdjustmentsRequest(_message.Message):
    __slots__ = ("node_name", "adjustments")
    class AdjustmentsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    ADJUSTMENTS_FIELD_NUMBER: _ClassVar[int]
    node_name: str
    adjustments: _containers.ScalarMap[str, str]
    def __init__(self, node_name: _Optional[str] = ..., adjustments: _Optional[_Mapping[str, str]] = ...) -> None: ...

class SetAdjustmentsReply(_message.Message):
    __slots__ = ("errors",)
    class ErrorsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: AdjustmentErrors
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[AdjustmentErrors, _Mapping]] = ...) -> None: ...
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    errors: _containers.MessageMap[str, AdjustmentErrors]
    def __init__(self, errors: _Optional[_Mapping[str, AdjustmentErrors]] = ...) -> None: ...

class AdjustmentErrors(_message.Message):
    __slots__ = ("errors",)
    class ErrorsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    errors: _containers.ScalarMap[str, str]
    def __init__(self, errors: _Optional[_Mapping[str, str]] = ...) -> None: ...

class SetPowerProfileRequest(_message.Message):
    __slots__ = ("profile",)
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    profile: str
    def __init__(self, profile: _Optional[str] = ...) -> None: ...

class SetPodConsentsRequest(_message.Message):
    __slots__ = ("node_name", "pods")
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    node_name: str
    pods: _containers.RepeatedCompositeFieldContainer[PodConsent]
    def __init__(self, node_name: _Optional[str] = ..., pods: _Optional[_Iterable[_Union[PodConsent, _Mapping]]] = ...) -> None: ...

class PodConsent(_message.Message):
    __slots__ = ("namespace", "pod", "pod_uid", "allowed", "source", "consents")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    CONSENTS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    pod: str
    pod_uid: str
    allowed: str
    source: str
    consents: bool
    def __init__(self, namespace: _Optional[str] = ..., pod: _Optional[str] = ..., pod_uid: _Optional[str] = ..., allowed: _Optional[str] = ..., source: _Optional[str] = ..., consents: _Optional[bool] = ...) -> None: ...

class ManagerStatus(_message.Message):
    __slots__ = ("node_name", "registered", "problem", "configuration", "zones", "extended_resources", "instance", "cpu_classes_problem", "interrupts_problem")
    class ExtendedResourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    CONFIGURATION_FIELD_NUMBER: _ClassVar[int]
    ZONES_FIELD_NUMBER: _ClassVar[int]
    EXTENDED_RESOURCES_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_FIELD_NUMBER: _ClassVar[int]
    CPU_CLASSES_PROBLEM_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTS_PROBLEM_FIELD_NUMBER: _ClassVar[int]
    node_name: str
    registered: bool
    problem: str
    configuration: ActiveConfiguration
    zones: _containers.RepeatedCompositeFieldContainer[Zone]
    extended_resources: _containers.ScalarMap[str, int]
    instance: str
    cpu_classes_problem: str
    interrupts_problem: str
    def __init__(self, node_name: _Optional[str] = ..., registered: _Optional[bool] = ..., problem: _Optional[str] = ..., configuration: _Optional[_Union[ActiveConfiguration, _Mapping]] = ..., zones: _Optional[_Iterable[_Union[Zone, _Mapping]]] = ..., extended_resources: _Optional[_Mapping[str, int]] = ..., instance: _Optional[str] = ..., cpu_classes_problem: _Optional[str] = ..., interrupts_problem: _Optional[str] = ...) -> None: ...

class ActiveConfiguration(_message.Message):
    __slots__ = ("policy", "source", "error", "manifest")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MANIFEST_FIELD_NUMBER: _ClassVar[int]
    policy: str
    source: str
    error: str
    manifest: str
    def __init__(self, policy: _Optional[str] = ..., source: _Optional[str] = ..., error: _Optional[str] = ..., manifest: _Optional[str] = ...) -> None: ...

class Zone(_message.Message):
    __slots__ = ("name", "kind", "parent", "cpus", "shared_idle", "memory", "capacity_milli", "allocatable_milli", "available_milli", "containers", "attributes", "show_containers")
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    SHARED_IDLE_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_MILLI_FIELD_NUMBER: _ClassVar[int]
    ALLOCATABLE_MILLI_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_MILLI_FIELD_NUMBER: _ClassVar[int]
    CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    SHOW_CONTAINERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    kind: str
    parent: str
    cpus: str
    shared_idle: str
    memory: str
    capacity_milli: int
    allocatable_milli: int
    available_milli: int
    containers: _containers.RepeatedCompositeFieldContainer[ZoneContainer]
    attributes: _containers.ScalarMap[str, str]
    show_containers: bool
    def __init__(self, name: _Optional[str] = ..., kind: _Optional[str] = ..., parent: _Optional[str] = ..., cpus: _Optional[str] = ..., shared_idle: _Optional[str] = ..., memory: _Optional[str] = ..., capacity_milli: _Optional[int] = ..., allocatable_milli: _Optional[int] = ..., available_milli: _Optional[int] = ..., containers: _Optional[_Iterable[_Union[ZoneContainer, _Mapping]]] = ..., attributes: _Optional[_Mapping[str, str]] = ..., show_containers: _Optional[bool] = ...) -> None: ...

class ZoneContainer(_message.Message):
    __slots__ = ("id", "namespace", "pod", "name", "cpus", "memory", "request_milli")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_MILLI_FIELD_NUMBER: _ClassVar[int]
    id: str
    namespace: str
    pod: str
    name: str
    cpus: str
    memory: str
    request_milli: int
    def __init__(self, id: _Optional[str] = ..., namespace: _Optional[str] = ..., pod: _Optional[str] = ..., name: _Optional[str] = ..., cpus: _Optional[str] = ..., memory: _Optional[str] = ..., request_milli: _Optional[int] = ...) -> None: ...

class NodeMetadata(_message.Message):
    __slots__ = ("name", "labels", "annotations", "taints", "capacity")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class CapacityEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    TAINTS_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    name: str
    labels: _containers.ScalarMap[str, str]
    annotations: _containers.ScalarMap[str, str]
    taints: _containers.RepeatedCompositeFieldContainer[Taint]
    capacity: _containers.ScalarMap[str, str]
    def __init__(self, name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., annotations: _Optional[_Mapping[str, str]] = ..., taints: _Optional[_Iterable[_Union[Taint, _Mapping]]] = ..., capacity: _Optional[_Mapping[str, str]] = ...) -> None: ...

class MapUpdate(_message.Message):
    __slots__ = ("set", "remove")
    class SetEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SET_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    set: _containers.ScalarMap[str, str]
    remove: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, set: _Optional[_Mapping[str, str]] = ..., remove: _Optional[_Iterable[str]] = ...) -> None: ...

class Taint(_message.Message):
    __slots__ = ("key", "value", "effect")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    effect: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., effect: _Optional[str] = ...) -> None: ...

class TaintsUpdate(_message.Message):
    __slots__ = ("set", "remove")
    SET_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    set: _containers.RepeatedCompositeFieldContainer[Taint]
    remove: _containers.RepeatedCompositeFieldContainer[Taint]
    def __init__(self, set: _Optional[_Iterable[_Union[Taint, _Mapping]]] = ..., remove: _Optional[_Iterable[_Union[Taint, _Mapping]]] = ...) -> None: ...

class EventsRequest(_message.Message):
    __slots__ = ("events",)
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[PodEvent]
    def __init__(self, events: _Optional[_Iterable[_Union[PodEvent, _Mapping]]] = ...) -> None: ...

class PodEvent(_message.Message):
    __slots__ = ("namespace", "pod", "pod_uid", "reason", "message")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    pod: str
    pod_uid: str
    reason: str
    message: str
    def __init__(self, namespace: _Optional[str] = ..., pod: _Optional[str] = ..., pod_uid: _Optional[str] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class HealthCheckReply(_message.Message):
    __slots__ = ("problem",)
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    problem: str
    def __init__(self, problem: _Optional[str] = ...) -> None: ...
