"""Names in a recording: pseudonyms, unless names are kept.

A pseudonym is the same for the same name within one recording. It is keyed with a random key that is never written, so
that names cannot be guessed from it.
"""

import hmac
import secrets
from typing import Final

_DIGITS: Final = 16


class Pseudonyms:
    """Names of pods and nodes as a recording has them."""

    def __init__(self, *, keep: bool) -> None:
        self.keep = keep
        self._key = secrets.token_bytes(32)
        self._nodes: dict[str, str] = {}

    def id(self, uid: str) -> str:
        """Return the identity of an object; never its UID."""
        return self._digest(uid)

    def pod(self, key: str) -> str:
        """Return the name of a pod, `namespace/name` or a pseudonym."""
        return key if self.keep else f"pod-{self._digest(key)}"

    def node(self, name: str) -> str:
        """Return the name of a node."""
        if self.keep:
            return name
        found = self._nodes.get(name)
        if found is None:
            found = self._nodes[name] = f"node-{self._digest(name)}"
        return found

    def _digest(self, text: str) -> str:
        return hmac.digest(self._key, text.encode(), "sha256").hex()[:_DIGITS]
