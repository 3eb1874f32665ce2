"""Kubeconfig files with embedded certificates: a client needs no other file."""

import base64
from pathlib import Path
from typing import Any

import yaml

from joulie_devcluster.control_plane.pki import KeyPair, write_file


def kubeconfig(*, server: str, cluster: str, user: str, ca_pem: bytes, credentials: KeyPair) -> dict[str, Any]:
    """Return a kubeconfig with one context."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": cluster, "cluster": {"server": server, "certificate-authority-data": _encode(ca_pem)}},
        ],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _encode(credentials.cert_pem),
                    "client-key-data": _encode(credentials.key_pem),
                },
            },
        ],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": user}}],
        "current-context": cluster,
    }


def write_kubeconfig(path: Path, *, server: str, cluster: str, user: str, ca_pem: bytes, credentials: KeyPair) -> Path:
    """Write a kubeconfig with mode 0600 and return its path."""
    content = kubeconfig(server=server, cluster=cluster, user=user, ca_pem=ca_pem, credentials=credentials)
    return write_file(path, yaml.safe_dump(content, sort_keys=False).encode())


def _encode(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
