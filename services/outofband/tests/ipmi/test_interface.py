"""The library under hostile datagrams, and what its errors become."""

import socket
import threading
import time
from contextlib import contextmanager

import pytest
from pyipmi.errors import AuthenticationError, DecodingError, IpmiConnectionError, MessageStatusCodeError, RetryError

from joulie_outofband.endpoint import parse_endpoint
from joulie_outofband.ipmi import interface
from joulie_outofband.ipmi.bmc import IpmiBmc
from joulie_outofband.ipmi.interface import MOST_DATAGRAMS, IpmiSession
from joulie_outofband.reasons import BmcError, BmcReason


@contextmanager
def hostile(answer, times=1):
    """A BMC that answers every datagram with `times` datagrams; yields its port and those that it got."""
    got = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))

        def serve():
            while True:
                data, peer = server.recvfrom(4096)
                if data == b"end":
                    return
                got.append(data)
                for _ in range(times):
                    server.sendto(answer(data), peer)

        thread = threading.Thread(target=serve)
        thread.start()
        port = server.getsockname()[1]
        try:
            yield port, got
        finally:
            server.sendto(b"end", ("127.0.0.1", port))
            thread.join()


def failure(port, timeout_s=0.3):
    with pytest.raises(BmcError) as caught:
        IpmiSession("127.0.0.1", port, "root", "calvin", request_timeout_s=timeout_s)
    assert "calvin" not in str(caught.value)
    return caught.value.reason


@pytest.mark.parametrize(
    "answer", [b"\x06\x00\xff\x07", b"", b"\x00" * 4096, b"\xff" * 20, b"\x06\x00\xff\x06" + b"\xff" * 9]
)
def test_a_datagram_that_the_library_does_not_decode_is_malformed(answer):
    with hostile(lambda _: answer) as (port, _):
        assert failure(port) is BmcReason.MALFORMED


def test_a_bmc_that_does_not_answer_is_a_deadline():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        assert failure(silent.getsockname()[1]) is BmcReason.TIMED_OUT


def test_a_port_where_nobody_listens_is_not_an_answer():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert failure(port) is BmcReason.TIMED_OUT


class Library:
    """Stands for the library's connection and its session; `effect` is what a call returns or raises."""

    def __init__(self, monkeypatch, effect):
        self.effect = effect
        self.refusal = None
        self.sent = []
        self.closed = []
        self.session = self.connection = self
        self.target = None

        def create(made):
            self.interface = made
            close = made.close
            monkeypatch.setattr(made, "close", lambda: (self.closed.append("socket"), close()))
            return self

        monkeypatch.setattr(interface.pyipmi, "create_connection", create)

    def open(self, timeout_s=2.0):
        return IpmiSession("bmc-17", 6230, "root", "calvin", request_timeout_s=timeout_s)

    def set_session_type_rmcp(self, host, port):
        self.address = (host, port)

    def set_auth_type_user(self, username, password):
        self.credentials = (username, password)

    def set_priv_level(self, level):
        self.level = level

    def establish(self):
        self._note_limits()
        if self.refusal is not None:
            raise self.refusal

    def send_raw(self, lun, network_function, message):
        self.sent.append((lun, network_function, bytes(message)))
        self._note_limits()
        return self._result()

    def close(self):
        self.closed.append("session")
        self._result()

    def _note_limits(self):
        self.limits = (self.interface._datagrams, self.interface._until - time.monotonic())

    def _result(self):
        if isinstance(self.effect, BaseException):
            raise self.effect
        return self.effect


ERRORS = [
    (TimeoutError(), BmcReason.TIMED_OUT, "no answer within 2 s (BMC_REQUEST_TIMEOUT)"),
    (RetryError(), BmcReason.TIMED_OUT, "no answer within 2 s (BMC_REQUEST_TIMEOUT)"),
    (IpmiConnectionError("x"), BmcReason.TIMED_OUT, "no answer within 2 s (BMC_REQUEST_TIMEOUT)"),
    (AuthenticationError("calvin"), BmcReason.UNAUTHORIZED, "AuthenticationError"),
    (MessageStatusCodeError(0x01), BmcReason.BUSY, "RMCP+ status 0x01"),
    (MessageStatusCodeError(0x0F), BmcReason.BUSY, "RMCP+ status 0x0f"),
    (MessageStatusCodeError(0x0D), BmcReason.UNAUTHORIZED, "RMCP+ status 0x0d"),
    (DecodingError("calvin"), BmcReason.MALFORMED, "DecodingError"),
    (IndexError("calvin"), BmcReason.MALFORMED, "IndexError"),
    (AssertionError(), BmcReason.MALFORMED, "AssertionError"),
    (ConnectionRefusedError(), BmcReason.UNREACHABLE, "ConnectionRefusedError"),
]


@pytest.mark.parametrize(("error", "reason", "text"), ERRORS, ids=lambda each: type(each).__name__)
def test_an_error_of_the_library_has_a_reason_and_a_message_without_credentials(monkeypatch, error, reason, text):
    library = Library(monkeypatch, error)
    session = library.open()
    for call in (lambda: session.ask(0, b"\x01"), session.close):
        with pytest.raises(BmcError) as caught:
            call()
        assert (caught.value.reason, str(caught.value)) == (reason, f"bmc-17: {text}")
    assert library.closed == ["session", "socket"]


def test_a_session_is_opened_for_an_administrator_and_asked_at_the_controller_itself(monkeypatch):
    library = Library(monkeypatch, b"\x00\x01")
    session = library.open()
    assert (library.address, library.credentials, library.level) == (
        ("bmc-17", 6230),
        ("root", "calvin"),
        "ADMINISTRATOR",
    )
    assert library.target.ipmb_address == 0x20
    assert (library.interface.keep_alive_interval, library.interface.max_retries) == (0, 0)
    assert library.interface._timeout == 2.0
    assert session.ask(0x2C, b"\x02\xdc") == b"\x00\x01"
    assert library.sent == [(0, 0x2C, b"\x02\xdc")]
    session.close()
    assert library.closed == ["session", "socket"]


def test_the_socket_of_a_session_that_is_refused_is_closed(monkeypatch):
    library = Library(monkeypatch, b"")
    library.refusal = AuthenticationError()
    with pytest.raises(BmcError):
        library.open()
    assert library.closed == ["socket"]


def test_a_call_has_as_many_datagrams_and_as_much_time_as_its_limits(monkeypatch):
    library = Library(monkeypatch, b"\x00")
    session = library.open(timeout_s=2.0)
    assert library.limits == (MOST_DATAGRAMS, pytest.approx(14.0, abs=0.5))
    session.ask(0, b"\x01")
    assert library.limits == (MOST_DATAGRAMS, pytest.approx(2.0, abs=0.5))
    now = [100.0]
    monkeypatch.setattr(interface.time, "monotonic", lambda: now[0])
    received = []
    monkeypatch.setattr(interface.RmcpPlus, "_receive_rmcp_msg", lambda self: received.append(self) or (1, 7, b""))
    library.interface.begin(2.0)
    for _ in range(MOST_DATAGRAMS):
        assert library.interface._receive_rmcp_msg() == (1, 7, b"")
    with pytest.raises(TimeoutError):
        library.interface._receive_rmcp_msg()
    library.interface.begin(2.0)
    now[0] = 101.99
    library.interface._receive_rmcp_msg()
    now[0] = 102.0
    with pytest.raises(TimeoutError):
        library.interface._receive_rmcp_msg()
    assert len(received) == MOST_DATAGRAMS + 1
    session._interface.close()


def test_a_flood_in_the_middle_of_opening_a_session_ends_and_the_bmc_can_be_closed():
    """The library's loop over session setup messages has no deadline of its own."""
    foreign = bytes.fromhex("0600ff07") + bytes.fromhex("0611") + b"\x00" * 12

    def endless(_):
        return foreign

    with hostile(endless, times=3 * MOST_DATAGRAMS) as (port, _):
        session = object.__new__(IpmiSession)
        session._host, session._timeout_s = "127.0.0.1", 5.0
        session._interface = interface._BoundedRmcpPlus(keep_alive_interval=0, max_retries=0)
        session._interface.open()
        session._interface._sock.connect(("127.0.0.1", port))
        started = time.monotonic()
        with pytest.raises(BmcError) as caught, session._decoded():
            session._interface._handshake(0x10, b"\x01", 0x11)
        session._interface.close()
    assert caught.value.reason is BmcReason.TIMED_OUT
    assert time.monotonic() - started < 4.0


async def test_a_datagram_of_four_bytes_ends_one_request_of_one_bmc():
    with hostile(lambda _: b"\x06\x00\xff\x07") as (port, got):
        bmc = IpmiBmc(parse_endpoint(f"ipmi://127.0.0.1:{port}"), "root", "calvin", request_timeout_s=0.3)
        with pytest.raises(BmcError) as caught:
            await bmc.report()
        await bmc.close()
    assert (caught.value.reason, len(got)) == (BmcReason.MALFORMED, 1)
