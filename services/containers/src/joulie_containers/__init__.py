"""Places containers on CPUs and memory nodes."""
