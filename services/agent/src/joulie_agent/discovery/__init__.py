"""Discovery: makes the NodeHardware of a node."""
