"""Fixtures of the development cluster's tests."""

import io
import shutil
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from joulie_devcluster.real_node import cgroups


@pytest.fixture
def hierarchies(monkeypatch, tmp_path):
    """Two cgroup v1 controllers, as directories."""
    mounts = tmp_path / "mounts"
    lines = [f"cgroup {tmp_path / name} cgroup rw 0 0" for name in ("cpuset", "memory")]
    mounts.write_text("\n".join(["proc /proc proc rw 0 0", *lines]))
    for name in ("cpuset", "memory"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(cgroups, "_MOUNTS", mounts)
    return tmp_path


class ReleaseMirror:
    """A server on loopback that sends published files, and what it was asked for.

    Attributes:
        content: what is sent for each path: bytes, a file, a status, or a function that answers.
        paths: the paths of the requests, in order.
    """

    def __init__(self):
        self.content = {}
        self.paths = []
        mirror = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                mirror.paths.append(self.path)
                answer = mirror.content.get(self.path, HTTPStatus.NOT_FOUND)
                if callable(answer):
                    answer(self)
                elif isinstance(answer, HTTPStatus):
                    self.send_error(answer)
                else:
                    self.send_response(HTTPStatus.OK)
                    self.send_header("Content-Length", str(size_of(answer)))
                    self.end_headers()
                    with io.BytesIO(answer) if isinstance(answer, bytes) else answer.open("rb") as body:
                        shutil.copyfileobj(body, self.wfile)

            def do_CONNECT(self):
                mirror.paths.append(self.path)
                self.send_error(HTTPStatus.FORBIDDEN)

            def log_message(self, *_arguments):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.netloc = f"127.0.0.1:{self.server.server_port}"
        self.url = f"http://{self.netloc}"

    def run(self):
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


def size_of(content):
    return len(content) if isinstance(content, bytes) else content.stat().st_size


@pytest.fixture
def mirror(monkeypatch):
    """A mirror that downloads are made from."""
    found = ReleaseMirror()
    monkeypatch.setenv("JOULIE_RELEASE_MIRROR", found.url)
    found.run()
    yield found
    found.server.shutdown()
    found.server.server_close()
