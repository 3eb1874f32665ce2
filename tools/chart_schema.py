"""Writes the chart's `values.schema.json` from the settings models.

The `env` maps accept the services' settings only, since services ignore unknown variables and a typing error would go
unnoticed. Variables that the chart derives from other values are not accepted.
"""

import json
import sys
from collections.abc import Iterable
from typing import Any, Final

from tools.generated import ROOT, finish

from joulie_actuator import settings as actuator_settings
from joulie_agent.holders.settings import HoldersSettings
from joulie_agent.settings import AgentSettings, ClassLimits
from joulie_api.energy_factors import (
    CURRENCY_KEY,
    GRAMS_KEY,
    KIND_KEY,
    LONGEST_SOURCE,
    MOST_GRAMS,
    MOST_PRICE,
    PRICE_KEY,
    SOURCE_KEY,
    TOGETHER,
    EmissionsKind,
)
from joulie_api.presets import PRESETS
from joulie_api.settings import Settings, describe
from joulie_containers.node_agent.settings import NodeAgentSettings
from joulie_containers.resources.settings import PolicyName, ResourcesSettings
from joulie_containers.start_hook.settings import StartHookSettings
from joulie_core.class_caps.allowed_slowdown import AllowedSlowdown
from joulie_extender.settings import ExtenderSettings
from joulie_operator.settings import settings_model
from joulie_outofband.settings import OutOfBandSettings
from joulie_ven.settings import VenSettings

#: Set by the templates from other values.
_DERIVED: Final = frozenset(
    {
        "ACTUATOR_CONTROLLER_GID",
        "ACTUATOR_CONTROLLER_UID",
        "ACTUATOR_SOCKET",
        "API_SOCKET",
        "API_SOCKET_GID",
        "AGENT_MODE",
        "CLASS_LIMITS",
        "DEFAULT_MAX_SLOWDOWN",
        "DEFAULT_SLOWDOWN_IS_CONSENT",
        "ENERGY_RECEIPTS",
        "DEVICE_PROCESSES",
        "EXTENDER_ADDR",
        "HOST_ROOT",
        "LIFT_CLASS_LIMITS",
        "NODE_AGENT_SOCKET",
        "NRI_SOCKET",
        "POD_CONSENTS",
        "POLICY",
        "RESOURCE_MANAGER_SOCKET",
    }
    | {"HARDWARE_ACCESS", "HOST_IRQ_ROOT", "HOST_PROC_ROOT", "HOST_SYS_ROOT", "KUBECONFIG", "METRICS_ADDR", "NODE_NAME"}
    | {
        "POD_NAME",
        "POD_NAMESPACE",
        "POOL_NODE_SELECTOR",
        "POOL_SHARDS",
        "POOL_SHARD_ID",
        "POWER_BUDGETS",
        "POWER_DOMAINS",
        "POWER_OVERSUBSCRIPTION",
        "SAVINGS_ENABLED",
        "SLEEP_ENABLED",
        "START_HOOK_SOCKET",
        "STATE_DIR",
        "UI_ADDR",
        "VTN_CREDENTIALS_DIR",
    }
)

_Schema = dict[str, Any]

_FLAG: Final[_Schema] = {"type": "boolean"}
_TEXT: Final[_Schema] = {"type": "string"}
_NAME: Final[_Schema] = {"type": "string", "maxLength": 253, "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"}
_PATH: Final[_Schema] = {"type": "string", "pattern": "^/"}
_PORT: Final[_Schema] = {"type": "integer", "minimum": 1, "maximum": 65535}
_STRINGS: Final[_Schema] = {"type": "object", "additionalProperties": _TEXT}
#: Structures of Kubernetes, validated by the API server.
_OBJECT: Final[_Schema] = {"type": "object"}
_OBJECTS: Final[_Schema] = {"type": "array", "items": _OBJECT}

_ENTRIES: Final[_Schema] = {"type": "array", "items": {**_OBJECT, "required": ["name"]}}
_PLACEMENT: Final = {
    "nodeSelector": _STRINGS,
    "tolerations": _OBJECTS,
    "affinity": _OBJECT,
    "priorityClassName": _NAME,
}


def _closed(properties: _Schema) -> _Schema:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _replicas(most: int) -> _Schema:
    return {"type": "integer", "minimum": 1, "maximum": most}


def _image() -> _Schema:
    return _closed(
        {
            "repository": {"type": "string", "minLength": 1},
            "tag": {"type": "string", "pattern": r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$"},
            "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
            "pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
        }
    )


def _env(rows: Iterable[tuple[str, str]]) -> _Schema:
    return _closed({name: {"type": "string", "description": doc} for name, doc in rows if name not in _DERIVED})


def _service_env(model: type[Settings]) -> _Schema:
    return _env((row.name, row.doc) for row in describe(model))


def schema() -> _Schema:
    """Return the schema of the chart's values."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Values of the chart joulie",
        **_closed(
            {
                "global": _OBJECT,
                "fullnameOverride": _NAME,
                "commonLabels": _STRINGS,
                "imagePullSecrets": _OBJECTS,
                "preset": {"enum": [str(name) for name in PRESETS]},
                "operator": _closed(
                    {
                        "enabled": _FLAG,
                        "image": _image(),
                        "replicas": _replicas(5),
                        "env": _service_env(settings_model()),
                        "extraEnv": _ENTRIES,
                        "ui": _closed({"enabled": _FLAG, "port": _PORT, "host": _TEXT}),
                        "sleep": _closed({"enabled": _FLAG}),
                        "savings": _closed({"enabled": _FLAG}),
                        "powerDomains": _closed({"enabled": _FLAG, "enforce": _FLAG, "oversubscription": _FLAG}),
                        "admissionPolicy": _closed({"enabled": _FLAG}),
                        "resources": _OBJECT,
                        **_PLACEMENT,
                        "podAnnotations": _STRINGS,
                    }
                ),
                "agent": _agent(),
                "containers": _closed({"image": _image()}),
                "extender": _extender(),
                "outofband": _outofband(),
                "ven": _ven(),
                "networkPolicy": _closed(
                    {
                        "enabled": _FLAG,
                        "schedulerFrom": _OBJECTS,
                        "metricsFrom": _OBJECTS,
                        "uiFrom": _OBJECTS,
                        "apiServer": _closed({"ports": {"type": "array", "items": _PORT}, "to": _OBJECTS}),
                        "agentEgress": _OBJECTS,
                        "bmcEgress": _OBJECTS,
                        "vtnEgress": _OBJECTS,
                    }
                ),
                "energy": _closed({"factors": _energy_factors()}),
                "monitoring": _monitoring(),
                "uninstall": _closed(
                    {
                        "enabled": _FLAG,
                        "timeoutSeconds": {"type": "integer", "minimum": 10, "maximum": 3600},
                        **_PLACEMENT,
                        "extraEnv": _ENTRIES,
                    }
                ),
            }
        ),
    }


def _agent() -> _Schema:
    return _closed(
        {
            "enabled": _FLAG,
            "power": _closed({"enabled": _FLAG}),
            "mode": {"enum": ["daemonset", "pool"]},
            "image": _image(),
            "env": _service_env(AgentSettings),
            "extraEnv": _ENTRIES,
            "admissionPolicy": _closed({"enabled": _FLAG}),
            "headersSecrets": {"type": "array", "items": {**_NAME, "minLength": 1}, "uniqueItems": True},
            "resources": _OBJECT,
            "metricsPort": _PORT,
            "metricsHost": _TEXT,
            "hostNetwork": _FLAG,
            # ACTUATOR_STOP_GRACE and time to exit.
            "terminationGracePeriodSeconds": {"type": "integer", "minimum": 25, "maximum": 3600},
            "affinity": _OBJECT,
            "priorityClassName": _NAME,
            "podAnnotations": _STRINGS,
            "tolerations": _OBJECTS,
            "daemonset": _closed(
                {
                    "nodeSelector": {**_STRINGS, "minProperties": 1},
                    "maxUnavailable": {
                        "oneOf": [
                            {"type": "integer", "minimum": 1},
                            {"type": "string", "pattern": "^[1-9][0-9]?%$|^100%$"},
                        ]
                    },
                }
            ),
            "actuator": _actuator(),
            "holders": _closed(
                {
                    "enabled": _FLAG,
                    "env": _service_env(HoldersSettings),
                    "extraEnv": _ENTRIES,
                    "resources": _OBJECT,
                    "metricsPort": _PORT,
                    "processes": _closed({"enabled": _FLAG}),
                    "hostPodResourcesPath": _PATH,
                }
            ),
            "energyByPod": _closed(
                {"enabled": _FLAG, "hostCgroupPath": _PATH, "receipts": _closed({"enabled": _FLAG})}
            ),
            # YAML reads Off without quotes as false.
            "classLimits": _closed(
                {
                    "mode": {"enum": ["", *ClassLimits, False]},
                    "defaultMaxSlowdown": {"enum": list(AllowedSlowdown)},
                    "defaultIsConsent": _FLAG,
                    "startHook": _closed(
                        {
                            "enabled": _FLAG,
                            "env": _service_env(StartHookSettings),
                            "extraEnv": _ENTRIES,
                            "resources": _OBJECT,
                            "metricsPort": _PORT,
                            "hostNriPath": _PATH,
                        }
                    ),
                }
            ),
            "resourceManager": _resource_manager(),
            "watchdog": _closed(
                {
                    "enabled": _FLAG,
                    # A time span of systemd; at least 10 s, since each run costs CPU time.
                    "interval": {"type": "string", "pattern": "^([1-9][0-9]+s|[1-9][0-9]*(min|h))$"},
                    "hostPath": {"type": "string", "pattern": "^/[^ :]+$"},
                    "hostUnitsPath": _PATH,
                    "hostSystemdSocket": _PATH,
                    "nvidiaLibraries": {"type": "array", "items": {"type": "string", "pattern": "^/[^ :]+$"}},
                }
            ),
            "pool": _closed(
                {
                    "shards": _replicas(100),
                    "nodeSelector": {"type": "string", "minLength": 1},
                    "podNodeSelector": _STRINGS,
                    "tolerations": _OBJECTS,
                }
            ),
        }
    )


def _energy_factors() -> _Schema:
    amounts = {PRICE_KEY: MOST_PRICE, GRAMS_KEY: MOST_GRAMS}
    texts = {
        CURRENCY_KEY: {"type": "string", "pattern": "^[A-Z]{3}$"},
        KIND_KEY: {"enum": [str(each) for each in EmissionsKind]},
        SOURCE_KEY: {"type": "string", "minLength": 1, "maxLength": LONGEST_SOURCE},
    }
    return {
        **_closed(
            {**{key: {"type": "number", "minimum": 0, "maximum": most} for key, most in amounts.items()}, **texts}
        ),
        "dependencies": {key: [each for each in keys if each != key] for keys in TOGETHER for key in keys},
    }


def _monitoring() -> _Schema:
    return _closed(
        {
            "labels": _STRINGS,
            "podMonitors": _closed({"enabled": _FLAG, "interval": {"type": "string", "pattern": "^[1-9][0-9]*(s|m)$"}}),
            "alerts": _closed({"enabled": _FLAG}),
            "dashboards": _closed({"enabled": _FLAG, "labels": _STRINGS}),
        }
    )


def _actuator() -> _Schema:
    return _closed(
        {
            "env": _env((row.name, row.doc) for row in actuator_settings.rows()),
            "extraEnv": _ENTRIES,
            "resources": _OBJECT,
            "hostStatePath": _PATH,
            "hostSysPath": _PATH,
            "hostProcPath": {"type": "string", "pattern": "^(/.*)?$"},
            "seLinuxOptions": _STRINGS,
            "hsmp": _closed({"enabled": _FLAG}),
            "idleStates": _closed({"enabled": _FLAG}),
            "interrupts": _closed({"enabled": _FLAG}),
            "nvidia": _closed({"enabled": _FLAG, "runtimeClassName": _NAME}),
            "amd": _closed({"enabled": _FLAG, "rocmPath": _PATH}),
        }
    )


def _resource_manager() -> _Schema:
    return _closed(
        {
            "enabled": _FLAG,
            "policy": {"enum": [str(name) for name in PolicyName]},
            "env": _service_env(ResourcesSettings),
            "extraEnv": _ENTRIES,
            "resources": _OBJECT,
            "metricsPort": _PORT,
            "hostNriPath": _PATH,
            "hostStatePath": _PATH,
            "rdt": _closed({"enabled": _FLAG}),
            "exportedResources": _closed({"enabled": _FLAG}),
            "nodeAgent": _closed(
                {
                    "env": _service_env(NodeAgentSettings),
                    "extraEnv": _ENTRIES,
                    "resources": _OBJECT,
                    "metricsPort": _PORT,
                }
            ),
        }
    )


def _extender() -> _Schema:
    return _closed(
        {
            "enabled": _FLAG,
            "image": _image(),
            "replicas": _replicas(20),
            "env": _service_env(ExtenderSettings),
            "extraEnv": _ENTRIES,
            "resources": _OBJECT,
            "service": _closed({"clusterIP": _TEXT}),
            **_PLACEMENT,
            "podAnnotations": _STRINGS,
        }
    )


def _outofband() -> _Schema:
    return _closed(
        {
            "enabled": _FLAG,
            "image": _image(),
            "secrets": {"type": "array", "items": {**_NAME, "minLength": 1}},
            "admissionPolicy": _closed({"enabled": _FLAG}),
            "replicas": _replicas(2),
            "env": _service_env(OutOfBandSettings),
            "extraEnv": _ENTRIES,
            "resources": _OBJECT,
            **_PLACEMENT,
            "podAnnotations": _STRINGS,
        }
    )


def _ven() -> _Schema:
    return _closed(
        {
            "enabled": _FLAG,
            "image": _image(),
            "credentialsSecret": _NAME,
            "env": _service_env(VenSettings),
            "extraEnv": _ENTRIES,
            "admissionPolicy": _closed({"enabled": _FLAG}),
            "resources": _OBJECT,
            **_PLACEMENT,
            "podAnnotations": _STRINGS,
        }
    )


if __name__ == "__main__":
    text = json.dumps(schema(), indent=2) + "\n"
    sys.exit(finish(ROOT / "helm" / "joulie" / "values.schema.json", text, "just schema"))
