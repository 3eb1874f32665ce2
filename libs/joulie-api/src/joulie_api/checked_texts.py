"""Texts in settings that only another system would reject: label selectors, node names, URLs; and URLs without secrets.

Guarantees that what is accepted is well-formed. Whether a node or a server of that name exists is not checked.
Source: Kubernetes, "Object Names and IDs" (RFC 1123 subdomains).
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import urlsplit, urlunsplit

from pydantic import AfterValidator

from joulie_api.setting_values import Unit
from joulie_core.label_selector import parse_label_selector

_LONGEST_NAME: Final = 253
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_HIDDEN: Final = "***"
#: User and password of a URL, and what may follow a scheme.
_USERINFO: Final = re.compile(r"(?<=//)[^/?#@\s]*@")


def check_label_selector(text: str) -> str:
    """Return a label selector; an empty one selects everything.

    Raises:
        ValueError: it does not follow the grammar of Kubernetes.
    """
    parse_label_selector(text)
    return text


def check_node_name(text: str) -> str:
    """Return the name of a node; an empty one is left to the caller.

    Raises:
        ValueError: no node can have that name.
    """
    if text and (len(text) > _LONGEST_NAME or _SUBDOMAIN.fullmatch(text) is None):
        raise ValueError("not the name of a node: lower-case letters, digits, - and . only, 253 characters at most")
    return text


def check_http_url(text: str) -> str:
    """Return an http or https URL with a host; an empty one is left to the caller.

    Raises:
        ValueError: it is something else.
    """
    if not text:
        return text
    try:
        parts = urlsplit(text)
        valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise ValueError(f"not a URL: {error}") from error
    if not valid or not text.isprintable() or " " in text:
        raise ValueError("not a URL of the form http://HOST:PORT or https://HOST:PORT, with or without a path")
    return text


LabelSelector = Annotated[str, AfterValidator(check_label_selector), Unit("a label selector such as KEY=VALUE")]
"""Text that Kubernetes takes as a label selector."""
HttpUrl = Annotated[str, AfterValidator(check_http_url), Unit("an http or https URL")]
"""Text that is a URL of an HTTP server."""
NodeNameText = Annotated[str, AfterValidator(check_node_name), Unit("the name of a node")]
"""Text that can be the name of a node."""


def redacted(text: str) -> str:
    """Return a text without the user and password, and the query, of a URL in it."""
    hidden = _USERINFO.sub(f"{_HIDDEN}@", text)
    if "://" not in hidden or "?" not in hidden:
        return hidden
    try:
        return urlunsplit(urlsplit(hidden)._replace(query=_HIDDEN))
    except ValueError:
        return hidden.partition("?")[0] + f"?{_HIDDEN}"


def redacted_values(value: Any) -> Any:
    """Return settings, as they are logged, with every text redacted."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, Mapping):
        return {key: redacted_values(each) for key, each in value.items()}
    return [redacted_values(each) for each in value] if isinstance(value, list | tuple) else value
