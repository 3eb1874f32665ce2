"""The rendered chart: permissions, privilege separation, settings, hooks. Needs Helm and no cluster."""

import copy
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from tests.chart import (
    AMD,
    CHART,
    CONTAINERS_ALONE,
    EVERYTHING,
    HSMP,
    MATRIX,
    NVIDIA,
    POOL,
    RESOURCE_MANAGER,
    RESOURCES,
    ROOT,
    VEN,
    Helm,
    HelmError,
    containers,
    env_of,
    find,
    pod_spec,
    rules,
)
from tools.release.image import package_chart

from joulie_actuator.commands.probe import TIMEOUT_S as PROBE_DEADLINE_S
from joulie_actuator.hardware.gpu.device_calls import PATIENT_OPEN_WAIT_S
from joulie_actuator.settings import ActuatorSettings
from joulie_actuator.settings import read_settings as read_actuator_settings
from joulie_agent.__main__ import COMMANDS as COMMANDS_OF_AGENT
from joulie_agent.settings import AgentMode, AgentSettings
from joulie_api.settings import read_settings
from joulie_containers.__main__ import COMMANDS as COMMANDS_OF_CONTAINERS
from joulie_containers.node_agent.settings import NodeAgentSettings
from joulie_containers.resources.settings import ResourcesSettings
from joulie_devcluster.control_plane.scheduler_config import SchedulerSettings, extender_block
from joulie_extender.settings import ExtenderSettings
from joulie_operator.settings import settings_model
from joulie_outofband.settings import OutOfBandSettings
from joulie_sim.stack.roles import load_roles
from joulie_ven.settings import VenSettings

SERVICES = ("operator", "agent", "containers", "extender", "outofband", "ven")
#: Those with a service account of their own.
ACCOUNTS = tuple(each for each in SERVICES if each != "containers")
#: Secrets that each service may read, so that all roles are rendered.
SECRETS = {"agent": {"headersSecrets": ["bmc"]}, "outofband": {"enabled": True, "secrets": ["bmc"]}, **VEN}


def test_the_package_of_a_release_renders_and_refuses_what_the_directory_does(helm: Helm, tmp_path: Path):
    package = tmp_path / "joulie.tgz"
    package_chart(CHART, package, created_s=1_700_000_000)
    arguments = ("--include-crds", "--set", "outofband.enabled=true", "--set", "outofband.secrets={bmc}")
    assert helm.run("template", "joulie", str(package), *arguments) == helm.run(
        "template", "joulie", str(CHART), *arguments
    )
    with pytest.raises(HelmError, match="NOT_A_SETTING"):
        helm.run("template", "joulie", str(package), "--set", "operator.env.NOT_A_SETTING=1")


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_helm_lint_passes_and_every_object_has_a_namespace_and_labels(helm: Helm, values):
    helm.lint(values)
    for each in helm.render(values, release="shop", namespace="elsewhere"):
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "joulie"
        assert labels["app.kubernetes.io/instance"] == "shop"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        cluster_wide = not RESOURCES[each["kind"]].namespaced
        assert each["metadata"].get("namespace") == (None if cluster_wide else "elsewhere")
        if "selector" in each["spec"] if "spec" in each else False:
            selector = each["spec"]["selector"].get("matchLabels", each["spec"]["selector"])
            assert selector.items() <= labels.items()


def test_object_names_follow_the_release_name(helm: Helm):
    assert find(helm.render({}), "Service", "joulie-scheduler-extender")
    assert find(helm.render({}, release="my-joulie"), "DaemonSet", "my-joulie-agent")
    assert find(helm.render({}, release="shop"), "DaemonSet", "shop-joulie-agent")
    assert find(helm.render({"fullnameOverride": "power"}), "DaemonSet", "power-agent")


def test_operator_and_agents_can_be_two_releases_in_two_namespaces(helm: Helm):
    services = helm.render({"agent": {"enabled": False}}, release="joulie")
    off = {"enabled": False}
    agents = helm.render({"operator": off, "extender": off}, release="joulie-agents", namespace="joulie-agents")
    names = [
        {(each["kind"], each["metadata"]["name"]) for each in manifests if not RESOURCES[each["kind"]].namespaced}
        for manifests in (services, agents)
    ]
    assert all(names)
    assert names[0].isdisjoint(names[1])
    assert "DaemonSet" not in {each["kind"] for each in services}


@pytest.mark.parametrize("service", SERVICES)
def test_image_tags_are_the_versions_of_the_services(helm: Helm, service):
    version = tomllib.loads((ROOT / "services" / service / "pyproject.toml").read_text())["project"]["version"]
    values = {**SECRETS, "agent": {**SECRETS["agent"], **RESOURCE_MANAGER["agent"]}}
    images = {
        each["image"] for workload in _workloads(helm.render(values)) for each in pod_spec(workload)["containers"]
    }
    assert f"docker.io/joulie/{service}:{version}" in images


def test_a_digest_takes_precedence_over_the_tag(helm: Helm):
    extender = find(helm.render(EVERYTHING), "Deployment", "power-scheduler-extender")
    assert containers(extender)["extender"]["image"] == "docker.io/joulie/extender@sha256:" + "0" * 64


@pytest.mark.parametrize("kind", ["ClusterRole", "Role"])
@pytest.mark.parametrize("service", ACCOUNTS)
def test_roles_are_those_that_the_end_to_end_tests_run_with(helm: Helm, service, kind):
    wanted = [m["rules"] for m in load_roles() if (m["kind"], m["metadata"]["name"]) == (kind, f"joulie-{service}")]
    name = "joulie-scheduler-extender" if service == "extender" else f"joulie-{service}"
    found = [
        [{key: value for key, value in rule.items() if key != "resourceNames"} for rule in m["rules"]]
        for m in helm.render(SECRETS)
        if (m["kind"], m["metadata"]["name"]) == (kind, name)
    ]
    assert found == wanted


def test_the_agent_and_the_outofband_service_can_read_only_secrets_that_are_named(helm: Helm):
    assert not [rule for rule in rules(helm.render({})) if "secrets" in rule["resources"]]
    assert not [m for m in helm.render({}) if m["kind"] == "RoleBinding" and m["metadata"]["name"] == "joulie-agent"]
    named = [rule for rule in rules(helm.render(EVERYTHING)) if "secrets" in rule["resources"]]
    assert [rule.pop("resourceNames") for rule in named] == [["bmc"], ["bmc-root", "bmc-ca"]]
    assert named == [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}] * 2


def test_an_outofband_service_that_may_read_no_secret_is_refused(helm: Helm):
    with pytest.raises(HelmError, match=r"outofband\.secrets"):
        helm.render({"outofband": {"enabled": True}})


@pytest.mark.parametrize("service", ["outofband", "ven"])
def test_a_service_that_not_everybody_needs_is_off_by_default(helm: Helm, service):
    assert not [each for each in helm.render({}) if each["metadata"]["name"].endswith(f"-{service}")]


@pytest.mark.parametrize(
    "missing", ["credentialsSecret", "env.VTN_URL", "env.VTN_PROGRAM", "env.VEN_NAME", "env.POWER_DOMAIN"]
)
def test_a_ven_that_could_not_start_is_refused_with_the_value_that_is_missing(helm: Helm, missing):
    values = copy.deepcopy(VEN)
    stanza, _, name = missing.rpartition(".")
    (values["ven"][stanza] if stanza else values["ven"]).pop(name)
    with pytest.raises(HelmError, match=rf"ven\.{missing}"):
        helm.render(values)


def test_there_is_one_ven_at_a_time_and_its_credentials_are_files(helm: Helm):
    deployment = find(helm.render(VEN), "Deployment", "joulie-ven")
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    (volume,) = pod_spec(deployment)["volumes"]
    assert volume["secret"] == {"secretName": "vtn", "defaultMode": 0o440}
    (mount,) = containers(deployment)["ven"]["volumeMounts"]
    assert (mount["mountPath"], mount["readOnly"]) == (
        env_of(containers(deployment)["ven"])["VTN_CREDENTIALS_DIR"],
        True,
    )
    assert not [rule for rule in rules(helm.render(VEN)) if "secrets" in rule["resources"]]


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_every_binding_names_a_role_and_an_account_of_the_release(helm: Helm, values):
    manifests = helm.render(values)
    for binding in (m for m in manifests if m["kind"].endswith("RoleBinding")):
        find(manifests, binding["roleRef"]["kind"], binding["roleRef"]["name"])
        for subject in binding["subjects"]:
            find(manifests, subject["kind"], subject["name"])
    for workload in _workloads(manifests):
        if account := pod_spec(workload).get("serviceAccountName"):
            find(manifests, "ServiceAccount", account)


def test_the_controller_has_the_token_and_no_hardware_access(helm: Helm):
    agent = find(helm.render({}), "DaemonSet", "joulie-agent")
    assert pod_spec(agent)["automountServiceAccountToken"] is False
    controller = containers(agent)["controller"]
    security = controller["securityContext"]
    assert (security["runAsUser"], security["runAsGroup"], security["runAsNonRoot"]) == (65532, 65532, True)
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert {mount["name"] for mount in controller["volumeMounts"]} == {"token", "socket"}
    assert not {"token", "socket"} & {volume["name"] for volume in pod_spec(agent)["volumes"] if "hostPath" in volume}


def test_the_actuator_has_hardware_access_and_no_token(helm: Helm):
    agent = find(helm.render({}), "DaemonSet", "joulie-agent")
    actuator = containers(agent)["actuator"]
    assert actuator["args"] == ["actuator"]
    assert actuator["image"] == containers(agent)["controller"]["image"]
    assert "token" not in {mount["name"] for mount in actuator["volumeMounts"]}
    security = actuator["securityContext"]
    assert security["runAsUser"] == 0
    assert security["readOnlyRootFilesystem"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert "privileged" not in security
    # Without capabilities, root can change a file's group only to one of its own groups.
    assert ActuatorSettings().actuator_controller_gid in pod_spec(agent)["securityContext"]["supplementalGroups"]


def test_the_live_page_is_off_by_default_and_then_local_to_the_pod(helm: Helm):
    for ui, address in (({}, None), ({"enabled": True}, "127.0.0.1:8083"), ({"enabled": True, "host": ""}, ":8083")):
        operator = containers(find(helm.render({"operator": {"ui": ui}}), "Deployment", "joulie-operator"))["operator"]
        assert env_of(operator).get("UI_ADDR") == address
        assert ("ui" in {port["name"] for port in operator["ports"]}) is (address is not None)


def test_the_resource_manager_is_off_by_default(helm: Helm):
    assert containers(find(helm.render({}), "DaemonSet", "joulie-agent")).keys() == {"controller", "actuator"}
    pool = {"agent": {**POOL["agent"], **RESOURCE_MANAGER["agent"]}}
    assert containers(find(helm.render(pool), "StatefulSet", "joulie-agent")).keys() == {"controller"}


def test_the_resource_manager_has_the_runtimes_socket_and_no_token_or_writable_host_files(helm: Helm):
    agent = find(helm.render(RESOURCE_MANAGER), "DaemonSet", "joulie-agent")
    manager = containers(agent)["resource-manager"]
    security = manager["securityContext"]
    assert manager["args"] == ["manager"]
    assert security["runAsUser"] == 0
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    volumes = {each["name"]: each.get("hostPath", {}).get("path") for each in pod_spec(agent)["volumes"]}
    mounts = {volumes[each["name"]]: each for each in manager["volumeMounts"]}
    assert "token" not in {each["name"] for each in manager["volumeMounts"]}
    assert {path for path, mount in mounts.items() if not mount.get("readOnly")} == {None, "/run/joulie-resources"}
    assert "/var/run/nri" in mounts
    assert {path for path in mounts if path and path.startswith("/sys")} == {
        f"/sys/{each}" for each in ("class", "dev", "devices", "fs/cgroup")
    }


def test_node_agent_and_resource_manager_meet_on_sockets_of_the_pod(helm: Helm):
    manifests = helm.render(RESOURCE_MANAGER)
    agent = find(manifests, "DaemonSet", "joulie-agent")
    found = {
        name: {key: value or "n1" for key, value in env_of(each).items()} for name, each in containers(agent).items()
    }
    settings = read_settings(ResourcesSettings, found["resource-manager"])
    of_node_agent = read_settings(NodeAgentSettings, found["node-agent"])
    of_controller = read_settings(AgentSettings, found["controller"])
    assert settings.api_socket == of_node_agent.resource_manager_socket
    assert settings.node_agent_socket == of_node_agent.node_agent_socket
    assert settings.actuator_socket == of_controller.actuator_socket
    assert settings.api_socket_gid in pod_spec(agent)["securityContext"]["supplementalGroups"]
    for name in ("resource-manager", "node-agent"):
        mounts = containers(agent)[name]["volumeMounts"]
        sockets = {each["mountPath"] for each in mounts if each["name"] == "socket"}
        assert sockets == {str(Path(settings.api_socket).parent)}
    assert (settings.host_root, settings.policy) == ("/host", "topology-aware")


def test_the_node_agent_has_a_token_and_no_right_or_file_of_the_host(helm: Helm):
    agent = find(helm.render(RESOURCE_MANAGER), "DaemonSet", "joulie-agent")
    found = containers(agent)
    assert found.keys() == {"controller", "actuator", "node-agent", "resource-manager"}
    node_agent = found["node-agent"]
    assert node_agent["args"] == ["node-agent"]
    assert node_agent["securityContext"] == found["controller"]["securityContext"]
    assert {each["name"] for each in node_agent["volumeMounts"]} == {"token", "socket"}


def test_container_resources_have_an_image_of_their_own_and_power_keeps_its(helm: Helm):
    own = {"repository": "registry.example/containers", "tag": "9", "pullPolicy": "Never"}
    agent = find(helm.render({**RESOURCE_MANAGER, "containers": {"image": own}}), "DaemonSet", "joulie-agent")
    found = {name: (each["image"], each["imagePullPolicy"]) for name, each in containers(agent).items()}
    assert found["resource-manager"] == found["node-agent"] == ("registry.example/containers:9", "Never")
    assert found["controller"] == found["actuator"]
    assert found["actuator"][0].startswith("docker.io/joulie/agent:")


def test_container_resources_alone_need_no_image_of_the_agent_and_have_one_actuator(helm: Helm):
    specs = [pod_spec(each) for each in _workloads(helm.render(CONTAINERS_ALONE))]
    images = {each["image"] for spec in specs for each in (*spec["containers"], *spec.get("initContainers", ()))}
    (image,) = images
    assert image.startswith("docker.io/joulie/containers:")
    agent = find(helm.render(CONTAINERS_ALONE), "DaemonSet", "joulie-agent")
    assert containers(agent).keys() == {"actuator", "node-agent", "resource-manager"}
    assert containers(agent)["actuator"]["args"] == ["actuator"]


def test_power_cannot_be_switched_off_where_nothing_else_would_run(helm: Helm):
    off = {"power": {"enabled": False}}
    with pytest.raises(HelmError, match=r"agent\.resourceManager\.enabled"):
        helm.render({"agent": off})
    with pytest.raises(HelmError, match=r"agent\.mode: daemonset"):
        helm.render({"agent": {**POOL["agent"], **RESOURCE_MANAGER["agent"], **off}})


def test_the_agent_may_read_container_policies_only_with_a_resource_manager(helm: Helm):
    def may_read(values) -> bool:
        return any("balloonspolicies" in rule["resources"] for rule in rules(helm.render(values)))

    assert (may_read({}), may_read(RESOURCE_MANAGER)) == (False, True)


def test_the_operator_may_power_servers_off_only_where_nodes_may_sleep(helm: Helm):
    def found(values) -> tuple[bool, str | None]:
        manifests = helm.render(values)
        operator = containers(find(manifests, "Deployment", "joulie-operator"))["operator"]
        may = any("pods/eviction" in rule["resources"] for rule in rules(manifests))
        return may, env_of(operator).get("SLEEP_ENABLED")

    assert found({}) == (False, None)
    assert found({"operator": {"sleep": {"enabled": True}}}) == (True, "true")


def test_the_container_that_asks_the_kubelet_is_root_without_capabilities_and_sees_one_directory(helm: Helm):
    values = {"agent": {"holders": {"enabled": True, "hostPodResourcesPath": "/k3s/pod-resources"}}}
    manifests = helm.render(values)
    agent = find(manifests, "DaemonSet", "joulie-agent")
    holders = containers(agent)["holders"]
    security = holders["securityContext"]
    assert (security["runAsUser"], security["capabilities"], security["readOnlyRootFilesystem"]) == (
        0,
        {"drop": ["ALL"]},
        True,
    )
    assert "privileged" not in security
    mounts = {each["mountPath"]: (each["name"], each.get("readOnly")) for each in holders["volumeMounts"]}
    assert mounts == {
        "/run/joulie": ("socket", None),
        "/var/lib/kubelet/pod-resources": ("pod-resources", True),
    }
    volume = next(each for each in pod_spec(agent)["volumes"] if each["name"] == "pod-resources")
    assert volume["hostPath"] == {"path": "/k3s/pod-resources", "type": "Directory"}
    assert env_of(holders)["HOLDERS_SOCKET"] == env_of(containers(agent)["controller"])["HOLDERS_SOCKET"]


@pytest.mark.parametrize(
    ("agent", "is_on"),
    [
        ({}, False),
        ({"holders": {"enabled": True}}, True),
        ({"holders": {"enabled": True}, "mode": "pool"}, False),
    ],
)
def test_the_agent_reads_pods_and_resource_slices_only_where_it_follows_holders(helm: Helm, agent, is_on):
    manifests = helm.render({"agent": agent})
    role = find(manifests, "ClusterRole", "joulie-agent")
    granted = {name for rule in role["rules"] for name in rule["resources"]}
    assert ({"pods", "resourceslices"} & granted == {"pods", "resourceslices"}) is is_on
    assert bool({"pods", "resourceslices"} & granted) is is_on
    if agent.get("mode") != "pool":
        assert ("holders" in containers(find(manifests, "DaemonSet", "joulie-agent"))) is is_on


def test_the_controller_sees_the_nodes_cgroups_read_only_where_energy_by_pod_is_on(helm: Helm):
    values = {"agent": {"energyByPod": {"enabled": True, "hostCgroupPath": "/node/cgroup"}}}
    agent = find(helm.render(values), "DaemonSet", "joulie-agent")
    controller = containers(agent)["controller"]
    mount = next(each for each in controller["volumeMounts"] if each["name"] == "host-cgroup")
    assert mount == {"name": "host-cgroup", "mountPath": "/host-cgroup", "readOnly": True}
    volume = next(each for each in pod_spec(agent)["volumes"] if each["name"] == "host-cgroup")
    assert volume["hostPath"] == {"path": "/node/cgroup", "type": "Directory"}
    assert env_of(controller)["ENERGY_BY_POD"] == "true"
    assert controller["securityContext"]["runAsNonRoot"] is True
    others = [each for name, each in containers(agent).items() if name != "controller"]
    assert all("host-cgroup" not in {mount["name"] for mount in each["volumeMounts"]} for each in others)


@pytest.mark.parametrize(
    ("agent", "granted"),
    [
        ({}, set()),
        ({"energyByPod": {"enabled": True}}, {"pods"}),
        ({"energyByPod": {"enabled": True}, "holders": {"enabled": True}}, {"pods", "resourceslices"}),
        ({"energyByPod": {"enabled": True}, "mode": "pool"}, set()),
    ],
)
def test_energy_by_pod_takes_the_right_to_read_pods_and_no_other(helm: Helm, agent, granted):
    manifests = helm.render({"agent": agent})
    role = find(manifests, "ClusterRole", "joulie-agent")
    assert {name for rule in role["rules"] for name in rule["resources"]} & {"pods", "resourceslices"} == granted
    if agent.get("mode") != "pool":
        volumes = {each["name"] for each in pod_spec(find(manifests, "DaemonSet", "joulie-agent"))["volumes"]}
        assert ("host-cgroup" in volumes) is bool(granted)


@pytest.mark.parametrize(
    ("agent", "shown"),
    [
        ({}, None),
        ({"holders": {"enabled": True}}, "Shadow"),
        ({"holders": {"enabled": True}, "classLimits": {"mode": "Shadow", "defaultMaxSlowdown": "10%"}}, "Shadow"),
        ({"holders": {"enabled": True}, "classLimits": {"mode": "Enforce"}}, "Enforce"),
        ({"holders": {"enabled": True}, "classLimits": {"mode": "Off"}}, "Off"),
        # As YAML reads Off without quotes.
        ({"holders": {"enabled": True}, "classLimits": {"mode": False}}, "Off"),
    ],
)
def test_the_agent_shows_limits_by_class_and_reads_namespaces_only_where_it_follows_holders(helm: Helm, agent, shown):
    manifests = helm.render({"agent": agent})
    env = env_of(containers(find(manifests, "DaemonSet", "joulie-agent"))["controller"])
    assert env.get("CLASS_LIMITS") == shown
    lifts = env_of(containers(find(manifests, "Deployment", "joulie-operator"))["operator"]).get("LIFT_CLASS_LIMITS")
    assert lifts == ("true" if shown == "Enforce" else None)
    assert env.get("DEFAULT_MAX_SLOWDOWN") == (
        None if shown is None else agent.get("classLimits", {}).get("defaultMaxSlowdown", "0%")
    )
    role = find(manifests, "ClusterRole", "joulie-agent")
    granted = {name for rule in role["rules"] for name in rule["resources"]}
    assert ("namespaces" in granted) is (shown in ("Shadow", "Enforce"))


@pytest.mark.parametrize(("mode", "expected"), [("Shadow", None), ("Enforce", "Enforce"), ("Off", None)])
def test_the_resource_manager_limits_cores_by_class_only_where_limits_are_set(helm: Helm, mode, expected):
    agent = {**RESOURCE_MANAGER["agent"], "holders": {"enabled": True}, "classLimits": {"mode": mode}}
    manager = containers(find(helm.render({"agent": agent}), "DaemonSet", "joulie-agent"))["resource-manager"]
    assert env_of(manager).get("CLASS_LIMITS") == expected


@pytest.mark.parametrize(("mode", "told"), [("Shadow", "true"), ("Enforce", "true"), ("Off", None)])
def test_the_node_agent_tells_what_pods_allow_by_the_same_defaults_only_where_there_are_limits(helm: Helm, mode, told):
    limits = {"mode": mode, "defaultMaxSlowdown": "10%", "defaultIsConsent": True}
    agent = {**RESOURCE_MANAGER["agent"], "holders": {"enabled": True}, "classLimits": limits}
    manifests = helm.render({"agent": agent})
    found = env_of(containers(find(manifests, "DaemonSet", "joulie-agent"))["node-agent"])
    defaults = ("10%", "true") if told else (None, None)
    assert found.get("POD_CONSENTS") == told
    assert (found.get("DEFAULT_MAX_SLOWDOWN"), found.get("DEFAULT_SLOWDOWN_IS_CONSENT")) == defaults
    role = find(manifests, "ClusterRole", "joulie-agent")
    granted = {name for rule in role["rules"] if "watch" in rule["verbs"] for name in rule["resources"]}
    assert not told or {"pods", "namespaces"} <= granted


def test_the_default_slowdown_is_consent_only_if_that_is_set(helm: Helm):
    def consent(**limits):
        agent = {"holders": {"enabled": True}, "classLimits": {"mode": "Enforce", **limits}}
        daemonset = find(helm.render({"agent": agent}), "DaemonSet", "joulie-agent")
        return env_of(containers(daemonset)["controller"])["DEFAULT_SLOWDOWN_IS_CONSENT"]

    assert [consent(), consent(defaultIsConsent=True)] == ["false", "true"]


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        ({"classLimits": {"mode": "Shadow"}}, "set agent.holders.enabled"),
        ({"classLimits": {"mode": "Shadow"}, "holders": {"enabled": True}, "mode": "pool"}, "agent.mode: daemonset"),
        ({"classLimits": {"mode": "Enforce"}}, "agent.classLimits.mode is Enforce, which needs the holders of GPUs"),
    ],
)
def test_limits_by_class_that_cannot_be_are_refused_with_the_way_out(helm: Helm, agent, message):
    with pytest.raises(HelmError, match=re.escape(message)):
        helm.render({"agent": agent})


START_HOOK = {"holders": {"enabled": True}, "classLimits": {"mode": "Enforce", "startHook": {"enabled": True}}}


def test_the_start_hook_is_root_without_capabilities_and_the_controller_follows_it(helm: Helm):
    limits = {**START_HOOK["classLimits"], "startHook": {"enabled": True, "hostNriPath": "/other/nri"}}
    manifests = helm.render({"agent": {**START_HOOK, "classLimits": limits}})
    agent = find(manifests, "DaemonSet", "joulie-agent")
    hook = containers(agent)["start-hook"]
    security = hook["securityContext"]
    assert (security["runAsUser"], security["capabilities"], security["readOnlyRootFilesystem"]) == (
        0,
        {"drop": ["ALL"]},
        True,
    )
    assert "privileged" not in security
    mounts = {each["mountPath"]: (each["name"], each.get("readOnly")) for each in hook["volumeMounts"]}
    assert mounts == {"/run/joulie": ("socket", None), "/var/run/nri": ("start-hook-nri", True)}
    volume = next(each for each in pod_spec(agent)["volumes"] if each["name"] == "start-hook-nri")
    assert volume["hostPath"] == {"path": "/other/nri", "type": "DirectoryOrCreate"}
    controller = env_of(containers(agent)["controller"])
    assert env_of(hook)["START_HOOK_SOCKET"] == controller["START_HOOK_SOCKET"] == "/run/joulie/start-hook.sock"


@pytest.mark.parametrize(
    ("agent", "is_on"),
    [(START_HOOK, True), ({**START_HOOK, "classLimits": {"mode": "Enforce"}}, False), ({}, False)],
)
def test_the_agent_creates_events_and_has_a_start_hook_only_where_that_is_enabled(helm: Helm, agent, is_on):
    manifests = helm.render({"agent": agent, "monitoring": {"podMonitors": {"enabled": True}}})
    daemonset = find(manifests, "DaemonSet", "joulie-agent")
    role = find(manifests, "ClusterRole", "joulie-agent")
    assert any("events" in rule["resources"] and rule["verbs"] == ["create"] for rule in role["rules"]) is is_on
    assert ("start-hook" in containers(daemonset)) is is_on
    assert ("START_HOOK_SOCKET" in env_of(containers(daemonset)["controller"])) is is_on
    policy = find(manifests, "ValidatingAdmissionPolicy", "joulie-agent")
    checked = [rule for rule in policy["spec"]["matchConstraints"]["resourceRules"] if "events" in rule["resources"]]
    about_pods = [
        each for each in policy["spec"]["validations"] if "involvedObject.kind == 'Pod'" in each["expression"]
    ]
    assert (len(checked), len(about_pods)) == ((1, 1) if is_on else (0, 0))
    monitor = find(manifests, "PodMonitor", "joulie-agent")
    assert ("start-hook" in {each["port"] for each in monitor["spec"]["podMetricsEndpoints"]}) is is_on


@pytest.mark.parametrize(
    ("holders", "is_on"),
    [
        ({"enabled": True, "processes": {"enabled": True}}, True),
        ({"enabled": True}, False),
        ({"processes": {"enabled": True}}, False),
    ],
)
def test_the_agents_have_the_pid_namespace_of_the_node_only_where_processes_are_looked_for(helm: Helm, holders, is_on):
    manifests = helm.render({"agent": {"holders": holders, "watchdog": {"enabled": True}}})
    for workload in manifests:
        if workload["kind"] in {"DaemonSet", "Deployment", "Job"}:
            mine = is_on and workload["metadata"]["name"] == "joulie-agent"
            assert pod_spec(workload).get("hostPID", False) is mine, workload["metadata"]["name"]
    controller = env_of(containers(find(manifests, "DaemonSet", "joulie-agent"))["controller"])
    assert controller.get("DEVICE_PROCESSES", "false") == ("true" if is_on else "false")


@pytest.mark.parametrize("mode", ["daemonset", "pool"])
@pytest.mark.parametrize("receipts", [True, False])
def test_receipts_take_the_right_to_create_events_about_pods_and_no_other(helm: Helm, receipts, mode):
    energy = {"enabled": True, "receipts": {"enabled": receipts}}
    values = {"mode": mode, "energyByPod": energy}
    manifests, without = helm.render({"agent": values}), helm.render({"agent": {**values, "energyByPod": {}}})
    is_on = receipts and mode == "daemonset"
    roles = [find(each, "ClusterRole", "joulie-agent")["rules"] for each in (manifests, without)]
    more = [rule for rule in roles[0] if rule not in roles[1] and "pods" not in rule["resources"]]
    assert more == ([{"apiGroups": [""], "resources": ["events"], "verbs": ["create"]}] if is_on else [])
    policy = find(manifests, "ValidatingAdmissionPolicy", "joulie-agent")
    assert sum("involvedObject.kind == 'Pod'" in each["expression"] for each in policy["spec"]["validations"]) == is_on
    if mode == "daemonset":
        controller = env_of(containers(find(manifests, "DaemonSet", "joulie-agent"))["controller"])
        assert controller["ENERGY_RECEIPTS"] == ("true" if receipts else "false")


def test_receipts_without_energy_by_pod_are_refused_with_the_way_out(helm: Helm):
    with pytest.raises(HelmError, match=r"agent\.energyByPod\.receipts\.enabled needs agent\.energyByPod\.enabled"):
        helm.render({"agent": {"energyByPod": {"receipts": {"enabled": True}}}})


@pytest.mark.parametrize("mode", ["Shadow", "Off", ""])
def test_a_start_hook_without_limits_that_are_set_is_refused_with_the_way_out(helm: Helm, mode):
    limits = {"mode": mode, "startHook": {"enabled": True}}
    with pytest.raises(HelmError, match=re.escape("set agent.classLimits.mode: Enforce")):
        helm.render({"agent": {"holders": {"enabled": True}, "classLimits": limits}})


@pytest.mark.parametrize(
    ("domains", "decides", "follows"),
    [
        ({}, None, None),
        ({"enabled": True}, "Observe", None),
        ({"enabled": True, "enforce": True}, "Enforce", "On"),
        ({"enforce": True}, None, None),
    ],
)
@pytest.mark.parametrize("mode", ["daemonset", "pool"])
def test_agents_follow_power_budgets_where_the_operator_enforces_them(helm: Helm, mode, domains, decides, follows):
    manifests = helm.render({"operator": {"powerDomains": domains}, "agent": {"mode": mode}})
    operator = containers(find(manifests, "Deployment", "joulie-operator"))["operator"]
    agent = containers(find(manifests, "DaemonSet" if mode == "daemonset" else "StatefulSet", "joulie-agent"))
    assert env_of(operator).get("POWER_DOMAINS") == decides
    assert env_of(agent["controller"]).get("POWER_BUDGETS") == follows


@pytest.mark.parametrize(
    ("domains", "raises"),
    [
        ({"enabled": True, "enforce": True}, None),
        ({"enabled": True, "enforce": True, "oversubscription": True}, "On"),
        ({"enabled": True, "oversubscription": True}, None),
        ({"oversubscription": True}, None),
    ],
)
def test_limits_are_raised_above_those_of_domains_only_where_they_are_enforced(helm: Helm, domains, raises):
    operator = find(helm.render({"operator": {"powerDomains": domains}}), "Deployment", "joulie-operator")
    assert env_of(containers(operator)["operator"]).get("POWER_OVERSUBSCRIPTION") == raises


def test_rdt_classes_need_resctrl_of_the_host(helm: Helm):
    values = {"agent": {"resourceManager": {"enabled": True, "rdt": {"enabled": True}}}}
    agent = find(helm.render(values), "DaemonSet", "joulie-agent")
    mounts = {each["mountPath"] for each in containers(agent)["resource-manager"]["volumeMounts"]}
    assert "/host/sys/fs/resctrl" in mounts


def test_containers_get_a_file_from_the_state_directory_on_the_node_only_where_that_is_on(helm: Helm):
    def manager(**values) -> tuple[str | None, str]:
        values = {"enabled": True, "hostStatePath": "/node/state", **values}
        agent = find(helm.render({"agent": {"resourceManager": values}}), "DaemonSet", "joulie-agent")
        container = containers(agent)["resource-manager"]
        mount = next(each for each in container["volumeMounts"] if each["name"] == "resources-state")
        assert mount["mountPath"] == env_of(container)["STATE_DIR"]
        volume = next(each for each in pod_spec(agent)["volumes"] if each["name"] == "resources-state")
        return env_of(container).get("EXPORT_HOST_DIR"), volume["hostPath"]["path"]

    assert manager() == (None, "/node/state")
    assert manager(exportedResources={"enabled": True}) == ("/node/state", "/node/state")


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_every_command_of_the_agents_that_the_chart_runs_exists(helm: Helm, values):
    for workload in _workloads(helm.render(values)):
        for container in containers(workload).values():
            commands = [container.get("command", []), *(_exec_of(container, f"{each}Probe") for each in PROBES)]
            named = {command[0]: command[1] for command in commands if command[:1] and command[0] in PROGRAMS}
            program = "joulie-containers" if "/containers:" in container["image"] else "joulie-agent"
            assert set(container.get("args", [])) <= PROGRAMS[program].keys()
            assert named.keys() <= {program}
            assert set(named.values()) <= PROGRAMS[program].keys()


PROBES = ("liveness", "readiness", "startup")
PROGRAMS = {"joulie-agent": COMMANDS_OF_AGENT, "joulie-containers": COMMANDS_OF_CONTAINERS}
#: Measured cost of one probe, and the share of a core that probes may take.
PROBE_START_CPU_S, PROBE_SHARE = 0.05, 0.001


def test_a_liveness_probe_restarts_a_hanging_actuator_for_less_than_a_thousandth_of_a_core(helm: Helm):
    manifests = helm.render({})
    for name in ("joulie-agent", "joulie-restore"):
        actuator = containers(find(manifests, "DaemonSet", name))["actuator"]
        probe = actuator["livenessProbe"]
        assert _exec_of(actuator, "livenessProbe") == ["joulie-agent", "probe"]
        assert probe["timeoutSeconds"] > PROBE_DEADLINE_S
        assert PROBE_START_CPU_S / probe["periodSeconds"] < PROBE_SHARE
        # The actuator first restores what a predecessor left, for which GPU drivers have to open.
        assert probe["initialDelaySeconds"] + probe["failureThreshold"] * probe["periodSeconds"] > PATIENT_OPEN_WAIT_S


def _exec_of(container, probe: str) -> list[str]:
    return container.get(probe, {}).get("exec", {}).get("command", [])


@pytest.mark.parametrize(("values", "more"), [({}, set()), (HSMP, {"devices/platform"})], ids=["default", "hsmp"])
def test_the_nodes_sys_is_read_only_but_for_directories_that_hold_limits(helm: Helm, values, more):
    agent = find(helm.render(values), "DaemonSet", "joulie-agent")
    volumes = {each["name"]: each.get("hostPath", {}) for each in pod_spec(agent)["volumes"]}
    mounts = {
        volumes[each["name"]]["path"]: each.get("readOnly", False)
        for each in containers(agent)["actuator"]["volumeMounts"]
        if volumes[each["name"]].get("path", "").startswith("/sys")
    }
    writable = {path for path, read_only in mounts.items() if not read_only}
    assert writable == {f"/sys/{each}" for each in {"devices/system/cpu", "devices/virtual"} | more}
    # /sys as a whole would include file systems mounted below it, which a read-only mount leaves writable.
    assert mounts.keys() - writable == {"/sys/class", "/sys/bus", "/sys/devices"}
    # Nothing can be created in sysfs.
    assert {volumes[name]["type"] for name in volumes if name.startswith("sys-")} == {"Directory"}


def test_a_grace_period_that_is_too_short_to_restore_is_rejected(helm: Helm):
    grace = pod_spec(find(helm.render({}), "DaemonSet", "joulie-agent"))["terminationGracePeriodSeconds"]
    assert grace > ActuatorSettings().actuator_stop_grace + 5
    with pytest.raises(HelmError, match=r"terminationGracePeriodSeconds \(45\).*ACTUATOR_STOP_GRACE \(41 s\)"):
        helm.render({"agent": {"actuator": {"env": {"ACTUATOR_STOP_GRACE": "41"}}}})


def test_gpu_privileges_are_granted_only_where_enabled(helm: Helm):
    nvidia = find(helm.render(NVIDIA), "DaemonSet", "joulie-agent")
    assert pod_spec(nvidia)["runtimeClassName"] == "nvidia"
    actuator, controller = containers(nvidia)["actuator"], containers(nvidia)["controller"]
    assert actuator["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_ADMIN"]}
    assert env_of(actuator)["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert env_of(actuator)["NVIDIA_DRIVER_CAPABILITIES"] == "utility"
    assert env_of(controller)["NVIDIA_VISIBLE_DEVICES"] == "void"
    amd = containers(find(helm.render(AMD), "DaemonSet", "joulie-agent"))
    assert amd["actuator"]["securityContext"]["privileged"]
    assert {"name": "rocm", "mountPath": "/opt/rocm", "readOnly": True} in amd["actuator"]["volumeMounts"]
    assert amd["controller"]["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_idle_states_need_one_capability(helm: Helm):
    values = {"agent": {"actuator": {"idleStates": {"enabled": True}}}}
    actuator = containers(find(helm.render(values), "DaemonSet", "joulie-agent"))["actuator"]
    assert actuator["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["SYS_ADMIN"]}
    plain = containers(find(helm.render({}), "DaemonSet", "joulie-agent"))["actuator"]
    assert plain["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_interrupts_need_one_writable_directory_and_no_capability(helm: Helm):
    values = {"agent": {"actuator": {"interrupts": {"enabled": True}}}}
    daemonset = find(helm.render(values), "DaemonSet", "joulie-agent")
    actuator = containers(daemonset)["actuator"]
    assert actuator["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert {"name": "irq", "mountPath": "/host-irq"} in actuator["volumeMounts"]
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in actuator["volumeMounts"]}
    assert mounts["/host-sys/kernel/irq"]
    assert env_of(actuator)["HOST_IRQ_ROOT"] == "/host-irq"
    (volume,) = [each for each in pod_spec(daemonset)["volumes"] if each["name"] == "irq"]
    assert volume["hostPath"] == {"path": "/proc/irq", "type": "Directory"}
    plain = containers(find(helm.render({}), "DaemonSet", "joulie-agent"))["actuator"]
    assert not [mount for mount in plain["volumeMounts"] if "irq" in mount["mountPath"]]


def test_a_pool_has_no_actuator(helm: Helm):
    manifests = helm.render(POOL)
    assert not [m for m in manifests if m["kind"] == "DaemonSet"]
    pool = find(manifests, "StatefulSet", "joulie-agent")
    assert list(containers(pool)) == ["controller"]
    assert "volumes" not in pod_spec(pool)
    assert pool["spec"]["replicas"] == 3
    find(manifests, "Service", pool["spec"]["serviceName"])


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_every_container_starts_with_settings_that_its_service_accepts(helm: Helm, values):
    models = {"operator": settings_model(), "controller": AgentSettings, "extender": ExtenderSettings}
    models |= {
        "outofband": OutOfBandSettings,
        "ven": VenSettings,
        "node-agent": NodeAgentSettings,
        "resource-manager": ResourcesSettings,
    }
    for workload in _workloads(helm.render(values)):
        for name, container in containers(workload).items():
            if name not in {*models, "actuator"}:
                continue
            env = {key: "pod-0" if value is None else value for key, value in env_of(container).items()}
            settings = read_actuator_settings(env) if name == "actuator" else read_settings(models[name], env)
            mounts = {mount["mountPath"] for mount in container.get("volumeMounts", ())}
            if name == "actuator":
                sys_root = settings.host_sys_root
                needed = {f"{sys_root}/class", f"{sys_root}/devices", f"{sys_root}/devices/system/cpu"}
                assert needed | {settings.state_dir, settings.actuator_socket.rpartition("/")[0]} <= mounts
                assert settings.host_proc_root in {*mounts, "/proc"}
            if name == "controller" and settings.agent_mode is AgentMode.DAEMONSET:
                assert settings.actuator_socket.rpartition("/")[0] in mounts


def test_probes_use_the_address_of_the_health_endpoint(helm: Helm):
    for workload in _workloads(helm.render(EVERYTHING)):
        for container in pod_spec(workload)["containers"]:
            if address := env_of(container).get("METRICS_ADDR"):
                host, _, port = address.rpartition(":")
                ports = {each["name"]: each["containerPort"] for each in container["ports"]}
                assert ports["metrics"] == int(port)
                for probe in ("livenessProbe", "readinessProbe"):
                    assert container[probe]["httpGet"].get("host", "") == host
                    assert container[probe]["httpGet"]["port"] == "metrics"


def test_pool_pods_get_their_shard(helm: Helm):
    env = env_of(containers(find(helm.render(POOL), "StatefulSet", "joulie-agent"))["controller"])
    settings = read_settings(AgentSettings, {**{k: v or "" for k, v in env.items()}, "POD_NAME": "joulie-agent-2"})
    assert (settings.pool_shards, settings.shard_id, settings.pool_node_selector) == (3, 2, "rack in (a,b)")


REFUSED = {
    "a typing error in a setting": ({"agent": {"env": {"RECONCILE_INTERVALL": "5s"}}}, "RECONCILE_INTERVALL"),
    "another service's setting": ({"extender": {"env": {"POLICY_TYPE": "x"}}}, "POLICY_TYPE"),
    "a setting that the chart derives": ({"agent": {"env": {"NODE_NAME": "n"}}}, "NODE_NAME"),
    "a number for a setting": ({"operator": {"env": {"WRITE_CONCURRENCY": 5}}}, "want string"),
    "a typing error in a key": ({"agent": {"daemonSet": {}}}, "daemonSet"),
    "an unknown mode": ({"agent": {"mode": "sidecar"}}, "'daemonset', 'pool'"),
    "no agents' nodes": ({"agent": {"daemonset": {"nodeSelector": {"joulie.io/managed": None}}}}, "minProperties"),
    "no replicas": ({"operator": {"replicas": 0}}, "minimum"),
    "no shards": ({"agent": {"pool": {"shards": 0}}}, "minimum"),
    "a relative path": ({"agent": {"actuator": {"hostSysPath": "sys"}}}, "pattern"),
    "an unknown pull policy": ({"operator": {"image": {"pullPolicy": "Sometimes"}}}, "'Never'"),
    "a short digest": ({"operator": {"image": {"digest": "sha256:1"}}}, "pattern"),
    "a watchdog more often than every ten seconds": ({"agent": {"watchdog": {"interval": "5s"}}}, "pattern"),
    "an extra variable without a name": ({"agent": {"extraEnv": [{"value": "x"}]}}, "'name'"),
}


@pytest.mark.parametrize(("values", "message"), REFUSED.values(), ids=REFUSED)
def test_invalid_values_are_rejected_by_name(helm: Helm, values, message):
    with pytest.raises(HelmError, match=re.escape(message)):
        helm.render(values)


@pytest.mark.parametrize("values", [{}, EVERYTHING], ids=["name", "address"])
def test_the_notes_show_the_scheduler_configuration_of_the_end_to_end_tests(helm: Helm, values):
    notes = helm.notes(values)
    snippet = yaml.safe_load(re.search(r"^percentageOfNodesToScore:.*?(?=\n\n)", notes, re.MULTILINE | re.DOTALL)[0])
    host = "10.96.0.76" if values else "joulie-scheduler-extender.joulie-system.svc.cluster.local"
    scheduler = SchedulerSettings()
    assert snippet == {
        "percentageOfNodesToScore": scheduler.percentage_of_nodes_to_score,
        "extenders": [extender_block(f"http://{host}:9876", scheduler.extender_timeout_s)],
    }


def test_hook_objects_exist_only_during_an_uninstall_or_a_test(helm: Helm):
    for values in (POOL, {}):
        for each in helm.render(values):
            name = each["metadata"]["name"]
            hook = each["metadata"].get("annotations", {}).get("helm.sh/hook")
            assert hook == ("pre-delete" if "restore" in name else "test" if name == "joulie-test" else None)


def test_hook_order_is_wake_withdraw_restore_verify(helm: Helm):
    values = {"operator": {"sleep": {"enabled": True}}}
    found = [(m, m["metadata"].get("annotations", {}).get("helm.sh/hook")) for m in helm.render(values)]
    hooks = [manifest for manifest, hook in found if hook == "pre-delete"]
    weights = {
        (m["kind"], m["metadata"]["name"]): int(m["metadata"]["annotations"]["helm.sh/hook-weight"]) for m in hooks
    }
    order = [
        ("ClusterRole", "joulie-restore"),
        ("Job", "joulie-restore-wake"),
        ("Job", "joulie-restore-withdraw"),
        ("DaemonSet", "joulie-restore"),
        ("Job", "joulie-restore-verify"),
    ]
    assert sorted(order, key=weights.__getitem__) == order
    assert len({weights[each] for each in order}) == len(order)
    assert max(weights.values()) == weights[order[-1]]


def test_an_uninstall_wakes_nodes_where_they_may_sleep(helm: Helm):
    def jobs(**values) -> set[str]:
        names = [m["metadata"]["name"] for m in helm.render(values) if m["kind"] == "Job"]
        return {name.removeprefix("joulie-restore-") for name in names} - {"joulie-test"}

    sleep = {"sleep": {"enabled": True}}
    assert jobs() == {"withdraw", "verify"}
    assert jobs(operator=sleep) == {"wake", "withdraw", "verify"}
    assert jobs(operator=sleep, agent={"enabled": False}) == {"wake"}
    assert jobs(operator={**sleep, "enabled": False}) == {"withdraw", "verify"}
    assert jobs(operator=sleep, uninstall={"enabled": False}) == set()


def test_restore_pods_run_on_the_agents_nodes_with_the_same_actuator(helm: Helm):
    values = EVERYTHING | {"agent": {**EVERYTHING["agent"], "daemonset": {"nodeSelector": {"pool": "hpc"}}}}
    manifests = helm.render(values)
    agent, restore = find(manifests, "DaemonSet", "power-agent"), find(manifests, "DaemonSet", "power-restore")
    for key in ("nodeSelector", "tolerations", "hostNetwork", "terminationGracePeriodSeconds", "securityContext"):
        assert pod_spec(restore)[key] == pod_spec(agent)[key]
    actuator = containers(restore)["actuator"]
    assert actuator.pop("readinessProbe")["exec"]["command"] == ["joulie-agent", "restore"]
    assert actuator == containers(agent)["actuator"]
    volumes = {volume["name"]: volume for volume in pod_spec(agent)["volumes"]}
    assert pod_spec(restore)["volumes"] == [volumes[mount["name"]] for mount in actuator["volumeMounts"]]
    assert list(containers(restore)) == ["actuator"]
    assert pod_spec(restore)["automountServiceAccountToken"] is False


def test_a_hook_job_has_time_to_report_before_it_is_ended(helm: Helm):
    for name in ("withdraw", "verify"):
        job = find(helm.render({}), "Job", f"joulie-restore-{name}")
        own = int(env_of(containers(job)[name])["TIMEOUT_SECONDS"])
        helms_default_s = 300
        assert own < job["spec"]["activeDeadlineSeconds"] < helms_default_s
        assert job["metadata"]["annotations"]["helm.sh/hook-output-log-policy"] == "hook-failed"


def _workloads(manifests):
    return [m for m in manifests if m["kind"] in ("Deployment", "DaemonSet", "StatefulSet", "Job")]


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
def test_every_container_requests_ephemeral_storage_and_is_limited_in_it(helm: Helm, values):
    for workload in _workloads(helm.render(values)):
        spec = pod_spec(workload)
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            resources = container["resources"]
            assert {"cpu", "memory", "ephemeral-storage"} == resources["requests"].keys(), container["name"]
            assert {"memory", "ephemeral-storage"} == resources["limits"].keys(), container["name"]


def test_agents_are_critical_for_their_node_and_the_other_services_for_the_cluster(helm: Helm):
    classes = {
        each["metadata"]["name"]: pod_spec(each).get("priorityClassName")
        for each in _workloads(helm.render(SECRETS))
        if each["kind"] in {"DaemonSet", "Deployment"}
    }
    assert classes == {
        "joulie-agent": "system-node-critical",
        "joulie-restore": "system-node-critical",
        "joulie-operator": "system-cluster-critical",
        "joulie-scheduler-extender": "system-cluster-critical",
        "joulie-outofband": "system-cluster-critical",
        "joulie-ven": "system-cluster-critical",
    }
    assert pod_spec(find(helm.render(POOL), "StatefulSet", "joulie-agent"))["priorityClassName"] == (
        "system-node-critical"
    )


@pytest.mark.parametrize("service", ["operator", "agent", "extender", "outofband", "ven"])
@pytest.mark.parametrize("name", ["", "important"])
def test_the_priority_class_of_a_service_can_be_set_or_left_to_the_cluster(helm: Helm, service, name):
    values = {**SECRETS, service: {**SECRETS.get(service, {}), "priorityClassName": name}}
    object_name = "joulie-scheduler-extender" if service == "extender" else f"joulie-{service}"
    kind = "DaemonSet" if service == "agent" else "Deployment"
    assert pod_spec(find(helm.render(values), kind, object_name)).get("priorityClassName", "") == name
