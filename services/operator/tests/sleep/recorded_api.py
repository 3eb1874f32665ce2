"""An API server that notes what the writer of sleep asks of it."""

from dataclasses import dataclass, field


@dataclass
class Api:
    """Notes requests, and answers lists with the given pages."""

    pages: list = field(default_factory=list)
    made: list = field(default_factory=list)

    async def list_page(self, res, *, field_selector="", continue_token="", **_bounds):
        self.made.append(("list", res.kind, field_selector, continue_token))
        return self.pages.pop(0)

    async def apply(self, res, name, body, *, status=False):
        self.made.append(("apply", res.kind, name, "status" if status else "object", body))

    async def patch(self, res, name, body):
        self.made.append(("patch", res.kind, name, body))

    async def evict(self, name, namespace):
        self.made.append(("evict", name, namespace))
