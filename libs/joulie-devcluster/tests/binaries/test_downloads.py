"""Downloads of published binaries from a server on loopback, and the builds that replace them where they fail."""

import hashlib
import io
import platform
import re
import socket
import ssl
import stat
import tarfile
import threading
from dataclasses import replace
from http import HTTPStatus

import pytest

from joulie_devcluster.binaries import obtain, releases
from joulie_devcluster.binaries.build import cached_path
from joulie_devcluster.binaries.download import DownloadLimits
from joulie_devcluster.binaries.lookup import BinarySource, ensure, find
from joulie_devcluster.binaries.modules import DEFAULT_KUBERNETES, Binary, kubernetes_minors, load_modules, module_of
from joulie_devcluster.binaries.releases import download_url, published_file
from joulie_devcluster.control_plane.pki import Authority
from joulie_devcluster.errors import BinaryError
from joulie_devcluster.host.progress import SilentReporter

KUBERNETES = module_of(Binary.APISERVER).version
ETCD = module_of(Binary.ETCD).version
COMMANDS = (Binary.APISERVER, Binary.SCHEDULER)
WANTED = (Binary.ETCD, *COMMANDS)
# Times that a busy machine does not exceed; tests of one of them shorten it.
LIMITS = DownloadLimits(connect_s=30.0, read_s=60.0, file_s=90.0, size_bytes=100_000)

COMMAND_PATHS = [f"/dl.test/{KUBERNETES}/{binary}" for binary in COMMANDS]
ARCHIVE_PATH = "/etcd.test/etcd.tar.gz"


def program(binary):
    return f"program {binary}".encode() * 1000


def archive(members):
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return output.getvalue()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


ARCHIVE = archive({f"./etcd-{ETCD}/README": b"-", f"./etcd-{ETCD}/etcd": program(Binary.ETCD)})


class Notes(SilentReporter):
    def __init__(self):
        self.notes = []
        self.steps = []
        self.progress = []

    def note(self, text):
        self.notes.append(text)

    def begin(self, step):
        self.steps.append([step, "begun"])

    def advance(self, done, total, detail):
        self.progress.append((done, total, detail))

    def finish(self):
        self.steps[-1][1] = "done"

    def abandon(self):
        self.steps[-1][1] = "abandoned"


def write_pins(directory, archive_sha256, member=f"etcd-{ETCD}/{{binary}}"):
    commands = "".join(f'{binary} = "{sha256(program(binary))}"\n' for binary in COMMANDS)
    pins = f"""
[etcd."{ETCD}"]
url = "https://etcd.test/etcd.tar.gz"
member = "{member}"
sha256.amd64 = "{archive_sha256}"
sha256.arm64 = "{archive_sha256}"
[kubernetes."{KUBERNETES}"]
url = "https://dl.test/{{version}}/{{binary}}"
[kubernetes."{KUBERNETES}".sha256.amd64]
{commands}
[kubernetes."{KUBERNETES}".sha256.arm64]
{commands}
"""
    path = directory / f"{sha256(pins.encode())}.toml"
    path.write_text(pins)
    return path


@pytest.fixture
def site(mirror, monkeypatch, tmp_path):
    """A mirror with three binaries, and pins with their checksums. Builds are recorded only."""
    monkeypatch.setattr(releases, "PINS", write_pins(tmp_path, sha256(ARCHIVE)))
    mirror.content[ARCHIVE_PATH] = ARCHIVE
    mirror.content.update(zip(COMMAND_PATHS, map(program, COMMANDS), strict=True))
    mirror.built = []

    def build(_cache, binaries, _reporter, **_options):
        mirror.built.extend(binaries)

    monkeypatch.setattr(obtain, "build", build)
    return mirror


def get(tmp_path, wanted=WANTED, limits=LIMITS, **options):
    """Obtain binaries; return the paths and what was reported."""
    reporter = Notes()
    paths = obtain.obtain(tmp_path / "cache", wanted, reporter, kubernetes=DEFAULT_KUBERNETES, limits=limits, **options)
    return paths, reporter


def files(tmp_path):
    return sorted(path.name for path in (tmp_path / "cache").rglob("*") if path.is_file())


def test_published_binaries_are_downloaded_verified_and_installed_as_executables(site, tmp_path):
    paths, reporter = get(tmp_path)
    assert {binary: path.read_bytes() for binary, path in paths.items()} == {each: program(each) for each in WANTED}
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o755 for path in paths.values())
    assert site.paths == [ARCHIVE_PATH, *COMMAND_PATHS]
    assert site.built == []
    assert reporter.notes == []
    assert [state for _, state in reporter.steps] == ["done"] * 3
    assert reporter.steps[1][0] == f"download published kubernetes {KUBERNETES}: kube-apiserver"
    assert (0, 0, f"megabytes from {site.netloc}") in reporter.progress
    assert files(tmp_path) == sorted(["build.lock", *WANTED])


def test_what_was_downloaded_is_found_in_the_cache_and_not_downloaded_again(site, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    paths, _ = get(tmp_path)
    site.paths.clear()
    again, reporter = get(tmp_path)
    assert (again, site.paths, site.built, reporter.steps) == (paths, [], [], [])
    assert ensure(WANTED, cache=tmp_path / "cache", kubernetes=DEFAULT_KUBERNETES) == paths
    located = find(Binary.ETCD, cache=tmp_path / "cache")
    assert (located.path, located.source, located.version) == (paths[Binary.ETCD], BinarySource.CACHE, ETCD)


def test_a_binary_that_is_asked_for_twice_is_downloaded_once(site, tmp_path):
    _, reporter = get(tmp_path, (Binary.SCHEDULER, Binary.SCHEDULER))
    assert site.paths == [COMMAND_PATHS[1]]
    assert reporter.steps == [[f"download published kubernetes {KUBERNETES}: kube-scheduler", "done"]]


def test_binaries_of_one_archive_are_downloaded_together(site, monkeypatch, tmp_path):
    plugins = (Binary.CNI_LOOPBACK, Binary.CNI_PTP)
    version = module_of(Binary.CNI_PTP).version
    content = archive({f"./{plugin}": program(plugin) for plugin in plugins})
    pins = tmp_path / "cni.toml"
    pins.write_text(
        f'[cni."{version}"]\nurl = "https://cni.test/cni.tgz"\nmember = "{{binary}}"\n'
        f'sha256 = {{amd64 = "{sha256(content)}", arm64 = "{sha256(content)}"}}\n'
    )
    monkeypatch.setattr(releases, "PINS", pins)
    site.content["/cni.test/cni.tgz"] = content
    paths, _ = get(tmp_path, plugins)
    assert site.paths == ["/cni.test/cni.tgz"]
    assert {each: path.read_bytes() for each, path in paths.items()} == {each: program(each) for each in plugins}


def test_another_checksum_is_another_entry_in_the_cache(site, monkeypatch, tmp_path):
    before, _ = get(tmp_path, (Binary.ETCD,))
    newer = archive({f"etcd-{ETCD}/etcd": b"newer"})
    site.content[ARCHIVE_PATH] = newer
    monkeypatch.setattr(releases, "PINS", write_pins(tmp_path, sha256(newer)))
    after, _ = get(tmp_path, (Binary.ETCD,))
    assert before[Binary.ETCD].read_bytes() == program(Binary.ETCD)
    assert after[Binary.ETCD].read_bytes() == b"newer"


def test_a_wrong_file_is_refused_with_both_checksums_and_removed_and_the_binary_is_built(site, tmp_path):
    site.content[COMMAND_PATHS[0]] = b"wrong"
    paths, reporter = get(tmp_path)
    assert site.built == [Binary.APISERVER]
    (note,) = reporter.notes
    assert note.startswith(f"REFUSED: {site.url}{COMMAND_PATHS[0]} has SHA-256 {sha256(b'wrong')}, expected ")
    assert sha256(program(Binary.APISERVER)) in note
    assert note.endswith("built from source instead: kube-apiserver")
    assert [state for _, state in reporter.steps] == ["done", "abandoned", "done"]
    # Not asked for a second time: it would send the same again.
    assert site.paths == [ARCHIVE_PATH, *COMMAND_PATHS]
    assert set(paths) == {Binary.ETCD, Binary.SCHEDULER}
    assert files(tmp_path) == ["build.lock", "etcd", "kube-scheduler"]


@pytest.mark.parametrize("status", [HTTPStatus.NOT_FOUND, HTTPStatus.SERVICE_UNAVAILABLE])
def test_a_file_that_the_server_does_not_send_is_built_and_the_others_are_downloaded(status, site, tmp_path):
    site.content[COMMAND_PATHS[0]] = status
    paths, reporter = get(tmp_path)
    assert site.built == [Binary.APISERVER]
    assert reporter.notes == [
        f"{site.url}{COMMAND_PATHS[0]} answers with status {status.value}; built from source instead: kube-apiserver"
    ]
    assert set(paths) == {Binary.ETCD, Binary.SCHEDULER}


def send_half(handler):
    body = program(Binary.APISERVER)
    handler.send_response(HTTPStatus.OK)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2])


def test_a_connection_that_is_cut_once_is_tried_again(site, tmp_path):
    whole = site.content[COMMAND_PATHS[0]]

    def cut_once(handler):
        site.content[COMMAND_PATHS[0]] = whole
        send_half(handler)

    site.content[COMMAND_PATHS[0]] = cut_once
    paths, reporter = get(tmp_path, COMMANDS)
    assert site.paths == [COMMAND_PATHS[0], *COMMAND_PATHS]
    assert paths[Binary.APISERVER].read_bytes() == program(Binary.APISERVER)
    assert reporter.notes == []


def test_after_two_cuts_all_that_the_server_has_is_built(site, tmp_path):
    site.content[COMMAND_PATHS[0]] = send_half
    _, reporter = get(tmp_path, COMMANDS)
    assert site.paths == [COMMAND_PATHS[0]] * 2
    assert site.built == list(COMMANDS)
    (note,) = reporter.notes
    assert re.match(rf"{site.netloc} cut the connection after \d+ of \d+ bytes of .*: kube-apiserver, kube-sch", note)
    assert files(tmp_path) == ["build.lock"]


@pytest.fixture
def hold():
    """An event on which a server waits; set at the end of the test."""
    event = threading.Event()
    yield event
    event.set()


def test_a_server_that_accepts_and_does_not_answer_is_left_after_the_time_for_reads(site, hold, tmp_path):
    site.content[COMMAND_PATHS[0]] = lambda _handler: hold.wait()
    _, reporter = get(tmp_path, COMMANDS, replace(LIMITS, read_s=0.2))
    assert site.built == list(COMMANDS)
    assert reporter.notes[0].startswith(f"{site.netloc} does not answer: timed out; built")


def test_a_server_that_stalls_in_a_file_is_left_after_a_second_try(site, hold, tmp_path):
    def stall(handler):
        send_half(handler)
        hold.wait()

    site.content[COMMAND_PATHS[0]] = stall
    # Long enough for the first half on a busy machine.
    _, reporter = get(tmp_path, COMMANDS, replace(LIMITS, read_s=3.0))
    assert site.paths == [COMMAND_PATHS[0]] * 2
    assert site.built == list(COMMANDS)
    assert reporter.notes[0].startswith(f"{site.netloc} stopped sending: timed out; built")


def test_a_server_that_sends_a_byte_now_and_then_is_left_after_the_time_for_a_file(site, hold, tmp_path):
    def trickle(handler):
        handler.send_response(HTTPStatus.OK)
        handler.end_headers()
        while not hold.wait(0.01):
            try:
                handler.wfile.write(b".")
            except OSError:
                return

    site.content[COMMAND_PATHS[0]] = trickle
    _, reporter = get(tmp_path, COMMANDS, replace(LIMITS, file_s=0.2))
    assert site.built == list(COMMANDS)
    assert "needs more than 0.2 s" in reporter.notes[0]


def test_without_a_network_everything_is_built_and_one_line_states_why(site, monkeypatch, tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setenv("JOULIE_RELEASE_MIRROR", f"http://127.0.0.1:{unused.getsockname()[1]}/sub/")
        paths, reporter = get(tmp_path)
    assert paths == {}
    assert site.built == list(WANTED)
    (note,) = reporter.notes
    assert re.search(r"cannot be reached: .*refused; built from source instead: etcd, kube-apiserver, kube-s", note)
    assert len(reporter.steps) == 1


def test_a_lookup_of_a_name_that_does_not_end_does_not_delay_the_build(site, hold, monkeypatch, tmp_path):
    monkeypatch.setenv("JOULIE_RELEASE_MIRROR", "https://mirror.test")
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.delenv("HTTPS_PROXY", raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_arguments: hold.wait() and [])
    _, reporter = get(tmp_path, limits=replace(LIMITS, connect_s=0.1))
    assert site.built == list(WANTED)
    assert "mirror.test cannot be reached: no connection within 0.2 s" in reporter.notes[0]


def test_the_proxy_of_the_environment_is_used(site, monkeypatch, tmp_path):
    monkeypatch.delenv("JOULIE_RELEASE_MIRROR")
    monkeypatch.setenv("https_proxy", site.url)
    monkeypatch.setenv("no_proxy", "")
    _, reporter = get(tmp_path)
    assert site.paths == ["etcd.test:443", "dl.test:443"]
    assert site.built == list(WANTED)
    assert "etcd.test cannot be reached: Tunnel connection failed: 403" in reporter.notes[0]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (archive({"other/etcd": b"-"}), f"the archive of etcd does not contain etcd-{ETCD}/etcd"),
        (archive({f"etcd-{ETCD}/etcd": bytes(200_000)}), "has 200000 bytes, more than 100000"),
        (ARCHIVE[:100], "cannot be unpacked"),
        (b"no archive", "cannot be unpacked"),
    ],
    ids=["member missing", "huge member", "truncated", "no archive"],
)
def test_an_archive_without_a_usable_binary_leads_to_a_build(content, reason, site, monkeypatch, tmp_path):
    site.content[ARCHIVE_PATH] = content
    monkeypatch.setattr(releases, "PINS", write_pins(tmp_path, sha256(content)))
    _, reporter = get(tmp_path)
    assert site.built == [Binary.ETCD]
    assert reason in reporter.notes[0]
    assert files(tmp_path) == ["build.lock", "kube-apiserver", "kube-scheduler"]


def send_huge(handler):
    """Announce a size above the limit and send nothing."""
    handler.send_response(HTTPStatus.OK)
    handler.send_header("Content-Length", "100001")
    handler.end_headers()


def send_endless(handler):
    handler.send_response(HTTPStatus.OK)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(bytes(10_000))
    except OSError:
        pass


@pytest.mark.parametrize("answer", [send_huge, send_endless])
def test_a_body_above_the_limit_is_not_read_to_its_end(answer, site, tmp_path):
    site.content[COMMAND_PATHS[0]] = answer
    _, reporter = get(tmp_path)
    assert site.built == [Binary.APISERVER]
    assert "more than 100000" in reporter.notes[0]
    assert files(tmp_path) == ["build.lock", "etcd", "kube-scheduler"]


def redirect_to(target):
    def answer(handler):
        handler.send_response(HTTPStatus.FOUND)
        handler.send_header("Location", target)
        handler.end_headers()

    return answer


def test_redirects_are_followed_but_not_to_addresses_without_https(site, tmp_path):
    site.content["/moved"] = program(Binary.APISERVER)
    site.content[COMMAND_PATHS[0]] = redirect_to("/moved")
    site.content[COMMAND_PATHS[1]] = redirect_to("http://mirror.test/kube-scheduler")
    paths, reporter = get(tmp_path)
    assert paths[Binary.APISERVER].read_bytes() == program(Binary.APISERVER)
    assert site.built == [Binary.SCHEDULER]
    assert "http://mirror.test/kube-scheduler is not an https:// address" in reporter.notes[0]


@pytest.mark.parametrize("trusted", [True, False])
def test_a_certificate_is_verified(trusted, site, monkeypatch, tmp_path):
    authority = Authority.create("mirror")
    certificate, key = authority.issue_server("mirror", ["127.0.0.1"]).write(tmp_path, "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    site.server.socket = context.wrap_socket(site.server.socket, server_side=True, do_handshake_on_connect=False)
    shown = authority if trusted else Authority.create("another")
    monkeypatch.setenv("SSL_CERT_FILE", str(shown.pair.write(tmp_path, "ca")[0]))
    monkeypatch.setenv("JOULIE_RELEASE_MIRROR", f"https://{site.netloc}")
    _, reporter = get(tmp_path)
    assert site.built == ([] if trusted else list(WANTED))
    assert trusted or "CERTIFICATE_VERIFY_FAILED" in reporter.notes[0]


@pytest.mark.parametrize("address", ["http://mirror.test", "ftp://127.0.0.1", "mirror.test", "https://"])
def test_a_mirror_without_https_is_an_error_that_names_the_variable(address, site, monkeypatch, tmp_path):
    monkeypatch.setenv("JOULIE_RELEASE_MIRROR", address)
    with pytest.raises(BinaryError, match=r"JOULIE_RELEASE_MIRROR is .*set it to an https:// address"):
        get(tmp_path)
    assert site.built == []


def test_a_build_from_source_can_be_forced_and_ignores_what_was_downloaded(site, tmp_path):
    downloaded, _ = get(tmp_path, (Binary.ETCD,))
    site.paths.clear()
    get(tmp_path, from_source=True)
    assert site.paths == []
    assert site.built == list(WANTED)
    built = cached_path(tmp_path / "cache", module_of(Binary.ETCD), Binary.ETCD)
    built.parent.mkdir()
    built.touch()
    assert obtain.find_cached(tmp_path / "cache", module_of(Binary.ETCD), Binary.ETCD) == built
    assert built != downloaded[Binary.ETCD]


def test_a_full_disk_leads_to_the_build_whose_message_states_what_it_needs(site, tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "download").symlink_to("/dev/full")
    _, reporter = get(tmp_path, (Binary.APISERVER,))
    assert site.built == [Binary.APISERVER]
    assert "cannot be written: [Errno 28] No space left on device" in reporter.notes[0]
    assert files(tmp_path) == ["build.lock"]


def test_what_is_published_for_no_file_is_built_without_a_request(site, monkeypatch, tmp_path):
    get(tmp_path, (Binary.KUBELET,))
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    get(tmp_path, (Binary.ETCD,))
    assert site.built == [Binary.KUBELET, Binary.ETCD]
    assert site.paths == []


def pinned_files(monkeypatch):
    """Yield module, binary, name of the machine and published file of all pins of both platforms."""
    for machine in ("x86_64", "aarch64"):
        monkeypatch.setattr(platform, "machine", lambda machine=machine: machine)
        for minor in kubernetes_minors():
            for module in load_modules(minor):
                for binary in module.packages:
                    file = published_file(module, binary)
                    if file is not None:
                        yield module, binary, machine, file


def test_every_pin_is_a_checksum_of_an_https_address_of_a_version_that_is_built_otherwise(monkeypatch):
    monkeypatch.delenv("JOULIE_RELEASE_MIRROR", raising=False)
    found = list(pinned_files(monkeypatch))
    for module, binary, _, file in found:
        assert re.fullmatch(r"[0-9a-f]{64}", file.sha256), binary
        assert download_url(file).startswith("https://")
        assert module.version in file.url
        assert "{" not in file.url + file.member
    # A copied line would be a binary under the name of another; files that are no archives differ.
    checksums = {file.sha256: file.url for *_, file in found}
    assert len(checksums) == len({file.url for *_, file in found})
    assert all(checksums[file.sha256] == file.url for *_, file in found)


def test_no_pin_is_left_of_a_version_that_is_not_used_any_more(monkeypatch):
    used = {(module.name, module.version) for module, *_ in pinned_files(monkeypatch)}
    text = releases.PINS.read_text()
    assert set(re.findall(r'^\[(\w+)\."([^"]+)"\]$', text, re.MULTILINE)) == used


def test_all_that_a_cluster_of_the_default_release_needs_is_published_for_amd64(monkeypatch):
    found = {binary for _, binary, machine, _ in pinned_files(monkeypatch) if machine == "x86_64"}
    assert {Binary.ETCD, Binary.KWOK, *module_of(Binary.APISERVER).packages} <= found
