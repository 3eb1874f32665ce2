"""Which pods hold which GPU of a node, and as what it is held: docs/decisions/0043-device-holders.md."""
