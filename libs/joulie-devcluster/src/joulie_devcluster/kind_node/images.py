"""Images of the pods that kubeadm starts, from built binaries and the node's own packages."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from joulie_devcluster.binaries.modules import Binary
from joulie_devcluster.containers.oci import ImageContent, busybox_image
from joulie_devcluster.errors import EngineError

#: The image that kubeadm's add-on of the same name needs is left out: pods of tests use addresses.
_LEFT_OUT: Final = "coredns"
_IPTABLES: Final = (
    "iptables",
    "iptables-save",
    "iptables-restore",
    "ip6tables",
    "ip6tables-save",
    "ip6tables-restore",
)
_PROXY_PROGRAMS: Final = ("/usr/sbin/xtables-nft-multi", "/usr/sbin/conntrack", "/usr/sbin/nft")


def image_contents(
    root: Path, paths: Mapping[Binary, Path], *, version: str, pause: str, busybox: Path
) -> list[ImageContent]:
    """Return the images of a control plane and of kube-proxy, pause and busybox.

    Args:
        root: the node's file system, with its packages.
        paths: built binaries.
        version: of Kubernetes, like "v1.37.1".
        pause: full name of the image of sandboxes.
        busybox: a statically linked busybox.

    Raises:
        EngineError: kubeadm requires an image that is not known here.
    """
    images = [busybox_image(busybox), busybox_image(busybox, name=pause)]
    for name in _required(paths[Binary.KUBEADM], version):
        component = name.rpartition("/")[2].partition(":")[0]
        if component == Binary.KUBE_PROXY:
            images.append(_proxy_image(name, root, paths[Binary.KUBE_PROXY]))
        elif component in set(Binary):
            program = f"usr/local/bin/{component}"
            images.append(ImageContent(name=name, files={program: paths[Binary(component)]}, entrypoint=[program]))
        elif component not in {"pause", _LEFT_OUT}:
            raise EngineError(f"kubeadm {version} requires an unknown image: {name}")
    return images


def _required(kubeadm: Path, version: str) -> list[str]:
    listing = subprocess.run(  # noqa: S603 - a built binary
        [kubeadm, "config", "images", "list", "--kubernetes-version", version],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return listing.stdout.split()


def _proxy_image(name: str, root: Path, kube_proxy: Path) -> ImageContent:
    """Return kube-proxy with the programs that it runs, and their libraries, from the node's packages."""
    extensions = sorted((root / "usr/lib").glob("*/xtables/*.so"))
    programs = [*_PROXY_PROGRAMS, *(f"/{each.relative_to(root)}" for each in extensions)]
    done = subprocess.run(  # noqa: S603 - the root file system that was made here
        ["/usr/sbin/chroot", root, "/usr/bin/ldd", *programs], capture_output=True, text=True, check=True
    )
    libraries = re.findall(r"^\s+(?:\S+ => )?(/\S+) \(", done.stdout, re.MULTILINE)
    files = {each.lstrip("/"): _inside(root, each) for each in (*programs, *libraries)}
    files["usr/local/bin/kube-proxy"] = kube_proxy
    return ImageContent(
        name=name,
        files=files,
        links={f"usr/sbin/{each}": "xtables-nft-multi" for each in _IPTABLES},
        directories=["run", "var/lib"],
        entrypoint=["/usr/local/bin/kube-proxy"],
    )


def _inside(root: Path, path: str) -> Path:
    """Return the file that a path names inside of a root file system, whose links are relative or lead into /usr."""
    found = root / path.lstrip("/")
    while found.is_symlink():
        target = str(found.readlink())
        found = root / target.lstrip("/") if target.startswith("/") else found.parent / target
    return found
