"""The only module that imports kubernetes_asyncio: configuration, credentials, TLS and the HTTP session come from it.

Why not a plain `import kubernetes_asyncio`: every import path of the library runs `client/__init__`, which defines
its ~700 models, and Joulie uses none. `load_library` therefore registers empty packages for the library, its
`client` and its `client.models` while it imports the few modules that are used, then removes them all from
`sys.modules` again: the rest of the process sees the library unchanged, and importing it later gives the full one.
When that fails, because a release moved its modules, the plain import is used and a warning is logged.

Measured with kubernetes_asyncio 36.1.0 and Python 3.11, resident memory and start of a whole process: 40 MB with what
this module imports besides (aiohttp, msgspec, structlog); 106 MB and 2.0 s with a plain import on top; 46 MB and 0.4 s
with `load_library`. To repeat::

    python -c "from joulie_api._kubernetes import load_library as f; f(); print(*open('/proc/self/status'))" | grep RSS

Status checks, timeouts and JSON are left to `joulie_api.client`.
"""

import functools
import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

import aiohttp
import structlog

from joulie_api.errors import ConfigError, TransportError

_LIBRARY: Final = "kubernetes_asyncio"
#: Concurrent connections of one process; each watch occupies one while it is open.
_CONNECTIONS: Final = 100

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Library:
    """The parts of kubernetes_asyncio that are used; `slim` is whether they were imported without the models."""

    configuration: type[Any]
    api_client: type[Any]
    config: ModuleType
    slim: bool


@functools.cache  # the modules are not in sys.modules afterwards: a second import would be a second copy
def load_library() -> Library:
    """Import the parts of kubernetes_asyncio that are used, once, without its models if possible.

    A process that has already imported the library gets that copy, since its memory is allocated already.
    """
    if _LIBRARY in sys.modules:
        return _import_plainly()
    try:
        return _import_slimly()
    except (ImportError, AttributeError) as error:
        _log.warning("slim import failed, importing whole library", library=_LIBRARY, error=str(error))
        return _import_plainly()


def _import_plainly() -> Library:
    client = importlib.import_module(f"{_LIBRARY}.client")
    config = importlib.import_module(f"{_LIBRARY}.config")
    return Library(client.Configuration, client.ApiClient, config, slim=False)


def _import_slimly() -> Library:
    spec = importlib.util.find_spec(_LIBRARY)
    if spec is None or spec.submodule_search_locations is None:
        raise ImportError(f"no package named {_LIBRARY}")
    roots = list(spec.submodule_search_locations)
    try:
        library = _bare_package(_LIBRARY, roots)
        client = _bare_package(f"{_LIBRARY}.client", [f"{root}/client" for root in roots])
        models = _bare_package(f"{_LIBRARY}.client.models", [])
        library.client, client.models = client, models  # type: ignore[attr-defined]  # attributes of a made module
        configuration = importlib.import_module(f"{_LIBRARY}.client.configuration").Configuration
        api_client = importlib.import_module(f"{_LIBRARY}.client.api_client").ApiClient
        client.Configuration, client.ApiClient = configuration, api_client  # type: ignore[attr-defined]  # as above
        config = importlib.import_module(f"{_LIBRARY}.config")
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == _LIBRARY]:
            del sys.modules[name]
    return Library(configuration, api_client, config, slim=True)


def _bare_package(name: str, path: Sequence[str]) -> ModuleType:
    package = ModuleType(name)
    package.__path__ = list(path)
    sys.modules[name] = package
    return package


def describe(error: BaseException) -> str:
    """Return the type of an exception and its text; some of asyncio's and aiohttp's have no text."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


class Session:
    """One HTTP session to one API server, with the credentials that belong to it.

    A client certificate is read once, when the session opens; tokens are reloaded as they expire.
    """

    def __init__(self, library: Library, *, kubeconfig: str | None, context: str | None) -> None:
        self._library = library
        self._kubeconfig = kubeconfig
        self._context = context
        self._configuration: Any = library.configuration()
        self._configuration.connection_pool_maxsize = _CONNECTIONS
        self._api: Any = None

    async def open(self, user_agent: str) -> None:
        """Load the configuration and create the session.

        Raises:
            ConfigError: a file is missing or invalid; the message names it.
        """
        await self.reload_credentials()
        try:
            self._api = self._library.api_client(self._configuration)
        except OSError as error:  # certificate files that are missing or do not parse (ssl.SSLError is an OSError)
            raise ConfigError(f"cannot use the certificates of {self._source}: {error}") from error
        self._api.user_agent = user_agent

    async def reload_credentials(self) -> None:
        """Reload kubeconfig or service-account files, an exec plugin's output included."""
        config = self._library.config
        try:
            if self._kubeconfig is None:
                config.load_incluster_config(client_configuration=self._configuration)
            else:
                await config.load_kube_config(
                    config_file=self._kubeconfig,
                    context=self._context,
                    client_configuration=self._configuration,
                    persist_config=False,
                )
        except Exception as error:  # the library validates little: a malformed file raises TypeError, or any other
            raise ConfigError(f"cannot load {self._source}: {error}") from error

    @property
    def _source(self) -> str:
        return "the in-cluster configuration" if self._kubeconfig is None else f"kubeconfig {self._kubeconfig}"

    @property
    def server(self) -> str:
        """URL of the API server."""
        return str(self._configuration.host)

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
        body: Any,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - the session's own limit, not a scope of this function
    ) -> aiohttp.ClientResponse:
        """Send one request and return the answer as soon as its headers have arrived, whatever its status.

        The caller must read or close it.

        Raises:
            TransportError: no answer.
        """
        try:
            response: aiohttp.ClientResponse = await self._api.call_api(
                path,
                method,
                query_params=list(query),
                header_params=dict(headers),
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _request_timeout=timeout,
            )
        # The library reads the token file before each request, which raises OSError while the file is being rotated.
        except (aiohttp.ClientError, OSError, self._library.config.ConfigException) as error:
            raise TransportError(f"{method} {path}: {describe(error)}") from error
        return response

    async def close(self) -> None:
        """Close all connections; an open watch ends."""
        if self._api is not None:
            await self._api.close()
