"""Files and command lines of the control plane's processes. Starts no process."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.control_plane import kwok
from joulie_devcluster.control_plane.audit import audit_policy
from joulie_devcluster.control_plane.config import ClusterConfig, Ports
from joulie_devcluster.control_plane.kubeconfig import write_kubeconfig
from joulie_devcluster.control_plane.pki import Authority, KeyPair, create_signing_key, write_file
from joulie_devcluster.control_plane.scheduler_config import scheduler_configuration
from joulie_devcluster.host.ports import LOOPBACK

ADMIN: Final = "admin"
#: Name of the API server's audit log among the logs.
AUDIT_LOG: Final = "audit"

_SERVICE_CIDR: Final = "10.96.0.0/16"
_SERVICE_ACCOUNT_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
_API_NAMES: Final = (
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    "localhost",
    LOOPBACK,
    # The first address of the service range is the API server's.
    "10.96.0.1",
)
# User and groups of each client. Kubernetes' default RBAC roles grant their permissions, data/kwok-rbac.yaml grants
# those of KWOK.
_CLIENTS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    ADMIN: ("kubernetes-admin", ("system:masters",)),
    Binary.SCHEDULER: ("system:kube-scheduler", ()),
    Binary.CONTROLLER_MANAGER: ("system:kube-controller-manager", ()),
    Binary.KWOK: ("system:kwok", ()),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of the files of one cluster."""

    root: Path

    @property
    def pki(self) -> Path:
        """Directory of certificates and keys."""
        return self.root / "pki"

    @property
    def logs(self) -> Path:
        """Directory of logs, one per process."""
        return self.root / "logs"

    @property
    def admin_kubeconfig(self) -> Path:
        """Kubeconfig of the administrator."""
        return self.root / "kubeconfig"

    def kubeconfig(self, client: str) -> Path:
        """Return the path of the kubeconfig of one client."""
        return self.admin_kubeconfig if client == ADMIN else self.root / "kubeconfigs" / f"{client}.yaml"

    def config(self, binary: Binary) -> Path:
        """Return the path of the configuration file of one process."""
        return self.root / "config" / f"{binary}.yaml"

    @property
    def audit_policy(self) -> Path:
        """Path of the API server's audit policy."""
        return self.root / "config" / "audit-policy.yaml"

    def log(self, name: str) -> Path:
        """Return the path of the log of one process."""
        return self.logs / f"{name}.log"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The authority that issues certificates while the cluster runs, and the certificates of the clients."""

    authority: Authority
    clients: Mapping[str, KeyPair]


def write_pki(layout: Layout) -> Credentials:
    """Create all certificates of a new cluster and write those that its processes read."""
    pki = layout.pki
    pki.mkdir(mode=0o700, parents=True)
    authority = Authority.create("kubernetes-ca")
    # Separate authorities: a client certificate of the cluster must be valid neither for etcd nor for the aggregation
    # layer.
    front_proxy = Authority.create("front-proxy-ca")
    etcd = Authority.create("etcd-ca")
    write_file(pki / "ca.crt", authority.pair.cert_pem)
    write_file(pki / "front-proxy-ca.crt", front_proxy.pair.cert_pem)
    write_file(pki / "etcd-ca.crt", etcd.pair.cert_pem)
    authority.issue_server("kube-apiserver", _API_NAMES).write(pki, "apiserver")
    for binary in (Binary.SCHEDULER, Binary.CONTROLLER_MANAGER):
        authority.issue_server(binary, ("localhost", LOOPBACK)).write(pki, binary)
    front_proxy.issue_client("front-proxy-client").write(pki, "front-proxy-client")
    etcd.issue_server("etcd", ("localhost", LOOPBACK)).write(pki, "etcd")
    etcd.issue_client("kube-apiserver-etcd-client").write(pki, "apiserver-etcd-client")
    private, public = create_signing_key()
    write_file(pki / "sa.key", private)
    write_file(pki / "sa.pub", public)
    clients = {client: authority.issue_client(user, groups) for client, (user, groups) in _CLIENTS.items()}
    clients[ADMIN].write(pki, ADMIN)
    return Credentials(authority, clients)


def write_configuration(
    layout: Layout, config: ClusterConfig, ports: Ports, credentials: Credentials, extender_url: str | None
) -> None:
    """Write all files that depend on the ports: kubeconfigs and the configuration files of the processes."""
    for client, pair in credentials.clients.items():
        write_kubeconfig(
            layout.kubeconfig(client),
            server=server_url(ports),
            cluster=config.name,
            user=str(client),
            ca_pem=credentials.authority.pair.cert_pem,
            credentials=pair,
        )
    scheduler = scheduler_configuration(
        config.scheduler, kubeconfig=str(layout.kubeconfig(Binary.SCHEDULER)), extender_url=extender_url
    )
    _write_yaml(layout.config(Binary.SCHEDULER), scheduler)
    if config.audited_users or config.audited_groups:
        _write_yaml(layout.audit_policy, audit_policy(config.audited_users, config.audited_groups))
    kwok.write_configuration(layout.config(Binary.KWOK), lease_s=config.node_lease_s)


def server_url(ports: Ports) -> str:
    """Return the URL of the API server."""
    return f"https://{LOOPBACK}:{ports.apiserver}"


def ready_url(binary: Binary, ports: Ports) -> str:
    """Return the readiness URL of a process."""
    paths = {Binary.ETCD: "/health", Binary.CONTROLLER_MANAGER: "/healthz", Binary.KWOK: "/healthz"}
    scheme = "http" if binary is Binary.KWOK else "https"
    return f"{scheme}://{LOOPBACK}:{ports.of(binary)}{paths.get(binary, '/readyz')}"


def arguments(binary: Binary, layout: Layout, config: ClusterConfig, ports: Ports) -> list[str]:
    """Return the command line of one process, without the executable.

    Raises:
        ValueError: the binary is not a process of the control plane.
    """
    match binary:
        case Binary.ETCD:
            return etcd_arguments(layout, ports)
        case Binary.APISERVER:
            return [*_apiserver(layout, ports), *_audit(layout, config), f"--v={config.verbosity}"]
        case Binary.SCHEDULER:
            flags = [f"--config={layout.config(binary)}"]
            return [*flags, *_kubernetes_client(binary, layout, ports), f"--v={config.verbosity}"]
        case Binary.CONTROLLER_MANAGER:
            flags = _controller_manager(layout, config)
            return [*flags, *_kubernetes_client(binary, layout, ports), f"--v={config.verbosity}"]
        case Binary.KWOK:
            return kwok.arguments(layout.config(binary), layout.kubeconfig(binary), ports.kwok)
        case _:
            raise ValueError(f"{binary} is not a process of the control plane")


def etcd_name(number: int) -> str:
    """Return the name of a member of etcd; that of the first is the binary's."""
    return f"{Binary.ETCD}-{number}" if number else str(Binary.ETCD)


def etcd_arguments(layout: Layout, ports: Ports, number: int = 0) -> list[str]:
    """Return the command line of one member of etcd, without the executable."""
    client_url = _etcd_urls(ports)[number]
    pki = layout.pki
    return [
        f"--data-dir={layout.root / etcd_name(number)}",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        *_peers(ports, number),
        f"--cert-file={pki / 'etcd.crt'}",
        f"--key-file={pki / 'etcd.key'}",
        f"--trusted-ca-file={pki / 'etcd-ca.crt'}",
        "--client-cert-auth",
        f"--peer-cert-file={pki / 'etcd.crt'}",
        f"--peer-key-file={pki / 'etcd.key'}",
        f"--peer-trusted-ca-file={pki / 'etcd-ca.crt'}",
        "--peer-client-cert-auth",
        # The data need not survive a crash of the machine, and waiting for the disk slows tests down.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _peers(ports: Ports, number: int) -> list[str]:
    if not ports.etcd_peers:
        # The only member: the kernel chooses the port, since no peer connects to it.
        return [f"--listen-peer-urls=https://{LOOPBACK}:0"]
    urls = [f"https://{LOOPBACK}:{port}" for port in ports.etcd_peers]
    return [
        f"--name={etcd_name(number)}",
        f"--listen-peer-urls={urls[number]}",
        f"--initial-advertise-peer-urls={urls[number]}",
        f"--initial-cluster={','.join(f'{etcd_name(each)}={url}' for each, url in enumerate(urls))}",
    ]


def _etcd_urls(ports: Ports) -> list[str]:
    return [f"https://{LOOPBACK}:{port}" for port in (ports.etcd, *ports.more_etcd)]


def _apiserver(layout: Layout, ports: Ports) -> list[str]:
    pki = layout.pki
    return [
        f"--etcd-servers={','.join(_etcd_urls(ports))}",
        f"--etcd-cafile={pki / 'etcd-ca.crt'}",
        f"--etcd-certfile={pki / 'apiserver-etcd-client.crt'}",
        f"--etcd-keyfile={pki / 'apiserver-etcd-client.key'}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        f"--secure-port={ports.apiserver}",
        # A loopback address is rejected as an endpoint; the default reconciler would retry every 10 s.
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={pki / 'apiserver.crt'}",
        f"--tls-private-key-file={pki / 'apiserver.key'}",
        f"--client-ca-file={pki / 'ca.crt'}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        # It taints every new node until the controller manager has observed it as ready: two more writes per node, and
        # most of the time that creating a thousand nodes takes. KWOK nodes are ready at once.
        "--disable-admission-plugins=TaintNodesByCondition",
        "--allow-privileged=true",
        f"--service-cluster-ip-range={_SERVICE_CIDR}",
        f"--service-account-issuer={_SERVICE_ACCOUNT_ISSUER}",
        f"--service-account-key-file={pki / 'sa.pub'}",
        f"--service-account-signing-key-file={pki / 'sa.key'}",
        # Without a front-proxy authority, scheduler and controller manager log an error every few seconds.
        f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        f"--proxy-client-cert-file={pki / 'front-proxy-client.crt'}",
        f"--proxy-client-key-file={pki / 'front-proxy-client.key'}",
    ]


def _audit(layout: Layout, config: ClusterConfig) -> list[str]:
    if not (config.audited_users or config.audited_groups):
        return []
    return [f"--audit-policy-file={layout.audit_policy}", f"--audit-log-path={layout.log(AUDIT_LOG)}"]


def _kubernetes_client(binary: Binary, layout: Layout, ports: Ports) -> list[str]:
    """Return the options that scheduler and controller manager have in common."""
    kubeconfig = layout.kubeconfig(binary)
    return [
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={ports.of(binary)}",
        f"--tls-cert-file={layout.pki / f'{binary}.crt'}",
        f"--tls-private-key-file={layout.pki / f'{binary}.key'}",
    ]


def _controller_manager(layout: Layout, config: ClusterConfig) -> list[str]:
    return [
        f"--kubeconfig={layout.kubeconfig(Binary.CONTROLLER_MANAGER)}",
        "--leader-elect=false",
        # Kubernetes' default RBAC gives each controller a role of its own and few permissions to the manager's user.
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.pki / 'sa.key'}",
        f"--root-ca-file={layout.pki / 'ca.crt'}",
        f"--client-ca-file={layout.pki / 'ca.crt'}",
        f"--service-cluster-ip-range={_SERVICE_CIDR}",
        # With the defaults of 20 and 30, tests wait for their namespaces.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        # Must be longer than a Lease; the default of 50 s belongs to Leases of 40 s.
        f"--node-monitor-grace-period={config.node_lease_s * 5 // 4}s",
        f"--node-monitor-period={round(config.node_monitor_period_s * 1000)}ms",
    ]


def _write_yaml(path: Path, document: Mapping[str, object]) -> None:
    write_file(path, yaml.safe_dump(dict(document), sort_keys=False).encode())
