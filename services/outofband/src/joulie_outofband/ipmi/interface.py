"""The library's side of IPMI: one RMCP+ session, bounded, and every failure of the library as a BmcError.

Guarantees: no call takes more datagrams or time than its limits, whatever is sent to its socket; the library decodes
what the BMC sends, so that any exception of it is invalid input of that BMC. Credentials are in no message.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import pyipmi
from pyipmi.errors import (
    AuthenticationError,
    IpmiConnectionError,
    IpmiLongPasswordError,
    IpmiTimeoutError,
    MessageStatusCodeError,
    RetryError,
)
from pyipmi.interfaces.rmcpplus import RmcpPlus

from joulie_outofband.reasons import BmcError, BmcReason

_MC: Final = 0x20
#: Status codes of RMCP+: no resources, for a session at all or for this user.
_NO_SESSION: Final = frozenset({0x01, 0x0F})
#: Answers that opening a session takes, each within a request's timeout: ping, capabilities, two proposals of a cipher
#: suite, two of the key exchange, privilege.
_OPENING_ANSWERS: Final = 7
#: Datagrams of one call; those that do not belong to it are late answers, of which there are few.
MOST_DATAGRAMS: Final = 64


class _BoundedRmcpPlus(RmcpPlus):  # type: ignore[misc]
    """RMCP+ whose loops over foreign datagrams end."""

    _until: float
    _datagrams: int

    def begin(self, within_s: float) -> None:
        """Set the limits of the next call."""
        self._until = time.monotonic() + within_s
        self._datagrams = MOST_DATAGRAMS

    def _receive_rmcp_msg(self) -> Any:
        self._datagrams -= 1
        # The one exception after which the library does not go on to receive.
        if self._datagrams < 0 or time.monotonic() >= self._until:
            raise TimeoutError
        return super()._receive_rmcp_msg()


class IpmiSession:
    """A session with one BMC; blocking, for one thread. Every method raises BmcError."""

    def __init__(self, host: str, port: int, username: str, password: str, *, request_timeout_s: float) -> None:
        self._host = host
        self._timeout_s = request_timeout_s
        # Retries are of later passes, and a thread that keeps the session alive is not needed at this pace.
        self._interface = _BoundedRmcpPlus(keep_alive_interval=0, max_retries=0)
        self._connection = pyipmi.create_connection(self._interface)
        with self._decoded(_OPENING_ANSWERS):
            self._connection.target = pyipmi.Target(ipmb_address=_MC)
            self._connection.session.set_session_type_rmcp(host, port)
            self._connection.session.set_auth_type_user(username, password)
            self._connection.session.set_priv_level("ADMINISTRATOR")
            self._interface.open()
            self._interface.set_timeout(request_timeout_s)
            try:
                self._connection.session.establish()
            except BaseException:
                self._interface.close()
                raise

    def ask(self, network_function: int, message: bytes) -> bytes:
        """Return the completion code and the data of an answer."""
        with self._decoded():
            return bytes(self._connection.send_raw(0, network_function, message))

    def close(self) -> None:
        """Close the session and its socket."""
        with self._decoded():
            try:
                self._connection.session.close()
            finally:
                self._interface.close()

    @contextmanager
    def _decoded(self, answers: int = 1) -> Iterator[None]:
        self._interface.begin(answers * self._timeout_s)
        try:
            yield
        except (TimeoutError, IpmiTimeoutError, RetryError, IpmiConnectionError) as error:
            raise BmcError(
                BmcReason.TIMED_OUT, f"{self._host}: no answer within {self._timeout_s:g} s (BMC_REQUEST_TIMEOUT)"
            ) from error
        except (AuthenticationError, IpmiLongPasswordError) as error:
            raise BmcError(BmcReason.UNAUTHORIZED, f"{self._host}: {type(error).__name__}") from error
        except MessageStatusCodeError as error:
            reason = BmcReason.BUSY if error.msc in _NO_SESSION else BmcReason.UNAUTHORIZED
            raise BmcError(reason, f"{self._host}: RMCP+ status 0x{error.msc:02x}") from error
        except OSError as error:
            raise BmcError(BmcReason.UNREACHABLE, f"{self._host}: {type(error).__name__}") from error
        except Exception as error:  # what the library does not decode, in any of its ways
            raise BmcError(BmcReason.MALFORMED, f"{self._host}: {type(error).__name__}") from error
