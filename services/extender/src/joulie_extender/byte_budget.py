"""A bound on the memory that requests take together."""


class ByteBudget:
    """A number of bytes that several holders share."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0

    def take(self, count: int) -> bool:
        """Take bytes and return True, or nothing and False where that would exceed the limit."""
        if self.held_bytes + count > self.limit_bytes:
            return False
        self.held_bytes += count
        return True

    def release(self, count: int) -> None:
        """Give bytes back that were taken."""
        self.held_bytes -= count
        assert self.held_bytes >= 0
