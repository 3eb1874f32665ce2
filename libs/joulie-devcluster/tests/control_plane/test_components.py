"""Files and command lines of the control plane."""

from dataclasses import replace

import pytest
import yaml

from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.control_plane.components import (
    Layout,
    arguments,
    etcd_arguments,
    ready_url,
    write_configuration,
    write_pki,
)
from joulie_devcluster.control_plane.config import ClusterConfig, Ports

PORTS = Ports(etcd=1, apiserver=2, scheduler=3, controller_manager=4, kwok=5)
SERVED = (Binary.ETCD, Binary.APISERVER, Binary.SCHEDULER, Binary.CONTROLLER_MANAGER, Binary.KWOK)


def flags(binary, tmp_path, **config):
    lines = arguments(binary, Layout(tmp_path), ClusterConfig(**config), PORTS)
    pairs = [argument.partition("=") for argument in lines]
    return {name: value for name, _, value in pairs}


def test_the_api_server_uses_node_and_rbac_authorization_and_publishes_no_endpoint(tmp_path):
    found = flags(Binary.APISERVER, tmp_path)
    assert found["--authorization-mode"] == "Node,RBAC"
    assert found["--endpoint-reconciler-type"] == "none"
    assert found["--requestheader-client-ca-file"].endswith("front-proxy-ca.crt")


def test_etcd_requires_client_certificates_and_does_not_sync_to_disk(tmp_path):
    assert {"--client-cert-auth", "--unsafe-no-fsync"} <= set(flags(Binary.ETCD, tmp_path))


@pytest.mark.parametrize("binary", SERVED)
def test_every_process_listens_on_loopback_only(binary, tmp_path):
    addresses = ("--bind-address", "--listen-client-urls", "--listen-peer-urls", "--server-address")
    found = flags(binary, tmp_path)
    named = [found[flag] for flag in addresses if flag in found]
    assert named
    assert all("127.0.0.1" in value for value in named)
    assert "127.0.0.1" in ready_url(binary, PORTS)


def test_the_controller_manager_runs_without_leader_election(tmp_path):
    assert flags(Binary.CONTROLLER_MANAGER, tmp_path)["--leader-elect"] == "false"


def test_a_node_is_not_ready_some_time_after_its_lease_has_ended(tmp_path):
    layout, config = Layout(tmp_path), ClusterConfig(node_lease_s=8)
    write_configuration(layout, config, PORTS, write_pki(layout), None)
    kwok = next(yaml.safe_load_all(layout.config(Binary.KWOK).read_text()))
    assert kwok["options"]["nodeLeaseDurationSeconds"] == 8
    assert "--node-monitor-grace-period=10s" in arguments(Binary.CONTROLLER_MANAGER, layout, config, PORTS)


def test_the_controller_manager_looks_at_nodes_as_often_as_it_is_told(tmp_path):
    assert flags(Binary.CONTROLLER_MANAGER, tmp_path)["--node-monitor-period"] == "5000ms"
    quick = flags(Binary.CONTROLLER_MANAGER, tmp_path, node_monitor_period_s=0.5)
    assert quick["--node-monitor-period"] == "500ms"


def test_configuration_files_contain_the_ports(tmp_path):
    layout = Layout(tmp_path)
    write_configuration(layout, ClusterConfig(), PORTS, write_pki(layout), "http://127.0.0.1:6")
    for client in ("admin", Binary.SCHEDULER, Binary.CONTROLLER_MANAGER, Binary.KWOK):
        content = yaml.safe_load(layout.kubeconfig(client).read_text())
        assert content["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:2"
    scheduler = yaml.safe_load(layout.config(Binary.SCHEDULER).read_text())
    assert scheduler["extenders"][0]["urlPrefix"] == "http://127.0.0.1:6"
    kwok, stage = yaml.safe_load_all(layout.config(Binary.KWOK).read_text())
    assert kwok["options"]["manageNodesWithAnnotationSelector"] == "kwok.x-k8s.io/node=fake"
    assert stage["spec"]["resourceRef"]["kind"] == "Node"


def test_a_kubelet_is_not_part_of_the_control_plane(tmp_path):
    with pytest.raises(ValueError, match="kubelet"):
        arguments(Binary.KUBELET, Layout(tmp_path), ClusterConfig(), PORTS)


def test_the_api_server_logs_requests_only_where_users_are_audited(tmp_path):
    layout = Layout(tmp_path)
    assert "--audit-log-path" not in flags(Binary.APISERVER, tmp_path)
    config = ClusterConfig(audited_users=("joulie-agent",))
    write_configuration(layout, config, PORTS, write_pki(layout), None)
    assert yaml.safe_load(layout.audit_policy.read_text())["rules"][0]["users"] == ["joulie-agent"]
    assert f"--audit-policy-file={layout.audit_policy}" in arguments(Binary.APISERVER, layout, config, PORTS)


def test_the_members_of_etcd_know_each_other_and_the_api_server_all_of_them(tmp_path):
    ports = replace(PORTS, more_etcd=(6, 7), etcd_peers=(8, 9, 10))
    layout = Layout(tmp_path)
    members = [etcd_arguments(layout, ports, number) for number in range(3)]
    cluster = "etcd=https://127.0.0.1:8,etcd-1=https://127.0.0.1:9,etcd-2=https://127.0.0.1:10"
    for number, member in enumerate(members):
        assert f"--name={('etcd', 'etcd-1', 'etcd-2')[number]}" in member
        assert f"--initial-cluster={cluster}" in member
        assert f"--listen-peer-urls=https://127.0.0.1:{8 + number}" in member
        assert f"--listen-client-urls=https://127.0.0.1:{(1, 6, 7)[number]}" in member
    assert len({each[0] for each in members}) == 3, "a directory of its own for each"
    servers = "--etcd-servers=https://127.0.0.1:1,https://127.0.0.1:6,https://127.0.0.1:7"
    assert servers in arguments(Binary.APISERVER, layout, ClusterConfig(), ports)
