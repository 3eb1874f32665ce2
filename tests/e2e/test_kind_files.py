"""The files in the directory kind: the programs that read them accept them, and refuse mistakes."""

import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.chart import CHART, ROOT
from tests.e2e.kind_files import CONTROL_PLANE, WORKERS, KindError, KindFiles, write_kind_files

from joulie_core.labels import MANAGED
from joulie_devcluster.binaries.lookup import selected_kubernetes
from joulie_devcluster.binaries.modules import Binary, kubernetes_minors
from joulie_devcluster.kind import NODE_IMAGES

pytestmark = pytest.mark.e2e

SCHEDULER_CONFIG = ROOT / "kind" / "scheduler-config.yaml"
UP = [sys.executable, "-m", "joulie_devcluster.kind", "up"]
NRI = "io.containerd.nri.v1.nri"
PROGRAM_TIMEOUT_S = 60

Binaries = Mapping[Binary, Path]


# Of the releases with which Joulie runs, kind writes kubeadm's configuration v1beta3 for the oldest, v1beta4 for the
# newest.
@pytest.fixture(scope="module", params=[kubernetes_minors()[0], kubernetes_minors()[-1]])
def files(
    request: pytest.FixtureRequest, kind_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> KindFiles:
    """What `just kind-up` starts, with a release of Kubernetes."""
    assert kind_binaries
    minor = request.param
    return write_kind_files(tmp_path_factory.mktemp("kind"), minor, [*UP, "--kubernetes", minor])


def run(program: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(program), *(str(each) for each in arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PROGRAM_TIMEOUT_S, check=False)


def test_kind_refuses_a_misspelled_field(kind_binaries: Binaries, tmp_path: Path):
    config = tmp_path / "cluster.yaml"
    config.write_text((ROOT / "kind" / "cluster.yaml").read_text().replace("extraMounts:", "extraMount:"))
    command = [str(kind_binaries[Binary.KIND]), "create", "cluster", "--config", str(config)]
    with pytest.raises(KindError, match="field extraMount not found"):
        write_kind_files(tmp_path / "home", selected_kubernetes(), command)


# kubeadm judges files of its own release only: 1.37 does not know the older version of its configuration any more. The
# other releases are those of `just e2e-matrix`.
def test_kubeadm_accepts_what_kind_writes_and_refuses_an_unknown_field(kind_binaries: Binaries, tmp_path: Path):
    minor = selected_kubernetes()
    files = write_kind_files(tmp_path / "home", minor, [*UP, "--kubernetes", minor])
    for node in (CONTROL_PLANE, *WORKERS):
        config = files.path(node, "/kind/kubeadm.conf")
        done = run(kind_binaries[Binary.KUBEADM], "config", "validate", "--config", config)
        assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr
    written = files.path(CONTROL_PLANE, "/kind/kubeadm.conf").read_text()
    misspelled = tmp_path / "misspelled.conf"
    misspelled.write_text(written.replace("extraVolumes:", "extraVolume:"))
    done = run(kind_binaries[Binary.KUBEADM], "config", "validate", "--config", misspelled)
    assert done.returncode != 0
    assert 'unknown field "scheduler.extraVolume"' in done.stderr


def test_containerd_runs_with_the_socket_that_the_chart_mounts(files: KindFiles, kind_binaries: Binaries):
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    for node in (CONTROL_PLANE, *WORKERS):
        config = files.path(node, "/etc/containerd/config.toml")
        done = run(kind_binaries[Binary.CONTAINERD], "--config", config, "config", "dump")
        assert done.returncode == 0, done.stderr
        written, understood = tomllib.loads(config.read_text())["plugins"], tomllib.loads(done.stdout)["plugins"]
        # containerd drops plugins and settings that it does not know.
        assert {name: understood[name].keys() >= settings.keys() for name, settings in written.items()} == {NRI: True}
        nri = understood[NRI]
        assert nri["disable"] is written[NRI]["disable"] is False
        assert str(Path(nri["socket_path"]).parent) == values["agent"]["resourceManager"]["hostNriPath"]


def decoded(scheduler: Path, config: dict[str, Any], directory: Path) -> dict[str, Any]:
    """A configuration as kube-scheduler understands it; it must be able to read the kubeconfig."""
    kubeconfig = {"apiVersion": "v1", "kind": "Config", "current-context": "c"}
    kubeconfig["clusters"] = [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}]
    kubeconfig["contexts"] = [{"name": "c", "context": {"cluster": "c", "user": ""}}]
    (directory / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    config["clientConnection"]["kubeconfig"] = str(directory / "kubeconfig")
    (directory / "config").write_text(yaml.safe_dump(config))
    done = run(scheduler, "--config", directory / "config", "--write-config-to", directory / "written")
    if not (directory / "written").exists():
        raise ValueError(done.stdout + done.stderr)
    return yaml.safe_load((directory / "written").read_text())


def test_kube_scheduler_accepts_its_configuration_and_calls_the_extender(kind_binaries: Binaries, tmp_path: Path):
    config = yaml.safe_load(SCHEDULER_CONFIG.read_text())
    found = decoded(kind_binaries[Binary.SCHEDULER], config, tmp_path)
    assert found["percentageOfNodesToScore"] == 100
    assert found["leaderElection"]["leaderElect"] is True
    extender = found["extenders"][0]
    assert (extender["filterVerb"], extender["prioritizeVerb"], extender["httpTimeout"]) == (
        "filter",
        "prioritize",
        "1s",
    )
    assert extender["nodeCacheCapable"] is extender["ignorable"] is True


def test_kube_scheduler_refuses_a_misspelled_field(kind_binaries: Binaries, tmp_path: Path):
    config = yaml.safe_load(SCHEDULER_CONFIG.read_text())
    config["extenders"][0]["filterVerbs"] = config["extenders"][0].pop("filterVerb")
    with pytest.raises(ValueError, match=r"unknown field .*extenders\[0\]\.filterVerbs"):
        decoded(kind_binaries[Binary.SCHEDULER], config, tmp_path)


def test_kube_scheduler_is_started_with_the_file_that_people_copy(files: KindFiles):
    scheduler = files.kubeadm(CONTROL_PLANE, "ClusterConfiguration")["scheduler"]
    arguments = scheduler["extraArgs"]
    path = _argument(arguments, "config")
    (volume,) = scheduler["extraVolumes"]
    assert Path(path).parent == Path(volume["mountPath"]) == Path(volume["hostPath"])
    assert f"--volume={SCHEDULER_CONFIG}:{path}:ro" in files.container(CONTROL_PLANE)
    # kubeadm's configuration v1beta3 has no environment.
    assert isinstance(arguments, dict) or scheduler["extraEnvs"] == [{"name": "GOGC", "value": "400"}]


def test_nodes_are_the_pinned_image_and_workers_are_managed(files: KindFiles):
    for node in (CONTROL_PLANE, *WORKERS):
        assert files.container(node)[-1] == NODE_IMAGES[files.kubernetes]
        registration = files.kubeadm(node, "JoinConfiguration")["nodeRegistration"]["kubeletExtraArgs"]
        assert (f"{MANAGED}=true" in _argument(registration, "node-labels")) is (node in WORKERS)


def test_the_kubelet_starts_on_cgroup_v1_too(files: KindFiles):
    assert files.kubeadm(WORKERS[0], "KubeletConfiguration")["failCgroupV1"] is False


def _argument(arguments: dict[str, str] | list[dict[str, str]], name: str) -> str:
    """An argument of a component: a map in kubeadm's configuration v1beta3, a list in v1beta4."""
    if isinstance(arguments, dict):
        return arguments[name]
    return next(each["value"] for each in arguments if each["name"] == name)
