"""Discovery: what NodeHardware says of a node."""
