"""Errors of the demo."""


class DemoError(Exception):
    """The demo failed; the message has the reason."""
