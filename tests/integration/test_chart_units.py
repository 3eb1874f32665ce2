"""The host watchdog as the chart renders it: rights, settings, units, removal."""

import shutil
import subprocess
import sys

import pytest
from tests.chart import (
    AMD,
    EVERYTHING,
    HSMP,
    NVIDIA,
    POOL,
    WATCHDOG,
    Helm,
    containers,
    env_of,
    find,
    pod_spec,
    rules,
)

from joulie_actuator.settings import read_settings as read_actuator_settings


def test_the_watchdog_is_off_by_default_and_in_pool_mode(helm: Helm):
    manifests = helm.render({})
    assert "initContainers" not in pod_spec(find(manifests, "DaemonSet", "joulie-agent"))
    assert not [each["metadata"]["name"] for each in manifests if "watchdog" in each["metadata"]["name"]]
    assert not [
        each for each in helm.render({"agent": {**POOL["agent"], **WATCHDOG["agent"]}}) if "watchdog" in str(each)
    ]


def test_the_watchdog_installer_has_no_capability_and_no_token_and_writes_where_the_actuator_cannot(helm: Helm):
    agent = find(helm.render(WATCHDOG), "DaemonSet", "joulie-agent")
    (installer,) = pod_spec(agent)["initContainers"]
    security = installer["securityContext"]
    assert (security["runAsUser"], security["capabilities"]) == (0, {"drop": ["ALL"]})
    assert "privileged" not in security
    assert not pod_spec(agent).get("hostPID", False)
    paths = {each["name"]: each["hostPath"]["path"] for each in pod_spec(agent)["volumes"] if "hostPath" in each}
    used = {paths[mount["name"]] for mount in installer["volumeMounts"] if mount["name"] in paths}
    assert used == {"/var/lib/joulie-watchdog", "/etc/systemd/system", "/run/systemd/private"}
    actuators = {paths[m["name"]] for m in containers(agent)["actuator"]["volumeMounts"] if m["name"] in paths}
    assert not [(path, below) for path in actuators for below in used if f"{below}/".startswith(f"{path}/")]


UNITS = {
    "plain": {},
    "nvidia": NVIDIA,
    "amd": AMD,
    "both": {"agent": {"actuator": {"nvidia": {"enabled": True}, "amd": {"enabled": True}}}},
    "hsmp": HSMP,
    "idle states": {"agent": {"actuator": {"idleStates": {"enabled": True}}}},
    "interrupts": {"agent": {"actuator": {"interrupts": {"enabled": True}}}},
    "other paths": EVERYTHING,
}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze: install systemd")
@pytest.mark.parametrize("values", UNITS.values(), ids=UNITS)
def test_systemd_analyze_accepts_the_units(helm: Helm, values, tmp_path):
    units = _watchdog_units(helm, values)
    for name, text in units.items():
        # systemd-analyze searches the program outside of RootDirectory=.
        assert ("ExecStart=/opt/joulie/bin/joulie-agent restore" in text) == name.endswith(".service")
        written = text.replace("@ROOT@", str(tmp_path)).replace("/opt/joulie/bin/joulie-agent", sys.executable)
        (tmp_path / name).write_text(written)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", *(tmp_path / name for name in units)],
        capture_output=True,
        text=True,
        check=False,
    )
    faults = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "watchdog" in line]
    assert (faults, done.returncode) == ([], 0), done.stderr


@pytest.mark.parametrize("values", UNITS.values(), ids=UNITS)
def test_the_watchdog_has_valid_settings_and_no_more_rights_than_the_actuator(helm: Helm, values):
    service = next(text for name, text in _watchdog_units(helm, values).items() if name.endswith(".service"))
    lines = [line.partition("=") for line in service.splitlines() if "=" in line and not line.startswith("#")]
    settings_of = {key: [value for name, _, value in lines if name == key] for key, _, _ in lines}
    env = dict(each.split("=", 1) for each in " ".join(settings_of["Environment"]).split())
    settings = read_actuator_settings(env)
    bound = {
        each.rpartition(":")[2]
        for each in " ".join(settings_of["BindPaths"] + settings_of.get("BindReadOnlyPaths", [])).split()
    }
    assert {settings.state_dir, f"{settings.host_sys_root}/devices", f"{settings.host_sys_root}/class"} <= bound
    assert settings.host_proc_root in {"/proc", *bound}

    values = {**values, "agent": {**values.get("agent", {}), **WATCHDOG["agent"]}}
    name = f"{values.get('fullnameOverride', 'joulie')}-agent"
    actuator = containers(find(helm.render(values), "DaemonSet", name))["actuator"]
    writable = {each["mountPath"] for each in actuator["volumeMounts"] if not each.get("readOnly")}
    if "privileged" in actuator["securityContext"]:
        writable.add("/sys")
    for path in " ".join(settings_of["ReadWritePaths"]).split():
        assert any(f"{path.lstrip('-+')}/".startswith(f"{each}/") for each in writable), path
    capabilities = actuator["securityContext"].get("capabilities", {}).get("add", [])
    if "privileged" not in actuator["securityContext"]:
        assert settings_of["CapabilityBoundingSet"] == [" ".join(f"CAP_{each}" for each in capabilities)]


def test_the_uninstall_removes_the_watchdog_last_and_verifies_it(helm: Helm):
    manifests = helm.render(WATCHDOG)
    weights = {
        (m["kind"], m["metadata"]["name"]): int(m["metadata"]["annotations"]["helm.sh/hook-weight"])
        for m in manifests
        if m["metadata"].get("annotations", {}).get("helm.sh/hook") == "pre-delete"
    }
    removal, shown = ("DaemonSet", "joulie-restore-watchdog"), ("Job", "joulie-restore-watchdog-removed")
    assert weights["Job", "joulie-restore-verify"] < weights[removal] < weights[shown] == max(weights.values())
    agent, remover = find(manifests, "DaemonSet", "joulie-agent"), find(manifests, *removal)
    for key in ("nodeSelector", "tolerations"):
        assert pod_spec(remover).get(key) == pod_spec(agent).get(key)
    (installs,), (removes,) = pod_spec(agent)["initContainers"], pod_spec(remover)["initContainers"]
    assert (installs.pop("command")[-1], removes.pop("command")[-1]) == ("install", "remove")
    assert installs == removes
    env = env_of(containers(find(manifests, *shown))["watchdog-removed"])
    assert env["RESTORE_DAEMONSET"] == removal[1]
    labels = remover["spec"]["template"]["metadata"]["labels"]
    assert dict(each.split("=") for each in env["RESTORE_SELECTOR"].split(",")).items() <= labels.items()
    # The service account can read it.
    assert [
        rule for rule in rules(manifests) if removal[1] in rule.get("resourceNames", ()) and rule["verbs"] == ["get"]
    ]


def _watchdog_units(helm: Helm, values) -> dict[str, str]:
    agent = values.get("agent", {})
    manifests = helm.render({**values, "agent": {**agent, **WATCHDOG["agent"]}})
    name = f"{values.get('fullnameOverride', 'joulie')}-watchdog"
    data = find(manifests, "ConfigMap", name)["data"]
    return {key: text for key, text in data.items() if not key.endswith(".py")}
