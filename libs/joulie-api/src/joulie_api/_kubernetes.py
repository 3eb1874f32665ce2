"""The only module that imports kubernetes_asyncio: configuration, credentials and TLS come from it.

Why not a plain `import kubernetes_asyncio`: every import path of the library runs `client/__init__`, which defines
its ~700 models, and Joulie uses none. `load_library` therefore registers empty packages for the library, its
`client` and its `client.models` while it imports the few modules that are used, then removes them all from
`sys.modules` again: the rest of the process sees the library unchanged, and importing it later gives the full one.
When that fails, because a release moved its modules, the plain import is used and a warning is logged.

Measured with kubernetes_asyncio 36.1.0 and Python 3.11, resident memory and start of a whole process: 40 MB with what
this module imports besides (aiohttp, msgspec, structlog); 106 MB and 2.0 s with a plain import on top; 46 MB and 0.4 s
with `load_library`. To repeat::

    python -c "from joulie_api._kubernetes import load_library as f; f(); print(*open('/proc/self/status'))" | grep RSS

Requests are sent by an aiohttp session of this module's own, on the library's connections. The library's `call_api`
costs 2.1 ms of CPU for a request that costs 0.6 ms here: it copies headers, query and body several times, and for
every request two threads read the environment and a .netrc file, which no API server needs. Proxies of the environment
are read once.

Status checks and timeouts are left to `joulie_api.client`.
"""

import asyncio
import functools
import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final
from urllib.parse import unquote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
import structlog

from joulie_api.errors import ConfigError, TransportError

_LIBRARY: Final = "kubernetes_asyncio"
#: Concurrent connections of one process; each watch occupies one while it is open.
_CONNECTIONS: Final = 100
#: Bytes that are read from a connection at once: a line of a watch may have more than aiohttp's default of 64 KiB.
_READ_BYTES: Final = 2**21
_DEFAULT_NAMESPACE: Final = "default"

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
        self._http: aiohttp.ClientSession | None = None
        self._proxy: Mapping[str, Any] = {}

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
        self._proxy = _proxy_arguments(self._configuration.proxy or await asyncio.to_thread(_proxy_of, self.server))
        self._http = aiohttp.ClientSession(
            connector=self._api.rest_client.pool_manager.connector,
            connector_owner=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": user_agent},
            read_bufsize=_READ_BYTES,
        )

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

    @property
    def namespace(self) -> str:
        """Namespace of the context; `default` where it names none."""
        if self._kubeconfig is None:
            return _DEFAULT_NAMESPACE
        contexts, active = self._library.config.list_kube_config_contexts(config_file=self._kubeconfig)
        chosen = next((each for each in contexts if each["name"] == self._context), active)
        return str(chosen["context"].get("namespace") or _DEFAULT_NAMESPACE)

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
        assert self._http is not None, "the session is not open"
        headers = dict(headers)
        url = f"{self.server}{path}?{urlencode(query)}" if query else f"{self.server}{path}"
        try:
            await self._api.update_params_for_auth(headers, [], ["BearerToken"])
            return await self._http.request(
                method,
                url,
                headers=headers,
                data=None if body is None else msgspec.json.encode(body),
                timeout=timeout,
                server_hostname=self._configuration.tls_server_name,
                **self._proxy,
            )
        # The library reads the token file before each request, which raises OSError while the file is being rotated.
        except (aiohttp.ClientError, OSError, self._library.config.ConfigException) as error:
            raise TransportError(f"{method} {path}: {describe(error)}") from error

    async def close(self) -> None:
        """Close all connections; an open watch ends."""
        if self._http is not None:
            await self._http.close()
        if self._api is not None:
            await self._api.close()


def _proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for a URL, None if it names none or excepts the host."""
    parts = urlsplit(url)
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme)


def _proxy_arguments(proxy: str | None) -> dict[str, Any]:
    """Return a request's arguments for a proxy; credentials in its URL are sent to the proxy only."""
    if proxy is None:
        return {}
    parts = urlsplit(proxy)
    arguments: dict[str, Any] = {"proxy": parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()}
    if parts.username:
        # aiohttp sends it as Proxy-Authorization.
        credentials = aiohttp.encode_basic_auth(unquote(parts.username), unquote(parts.password or ""))
        arguments["proxy_headers"] = {"Authorization": credentials}
    return arguments
