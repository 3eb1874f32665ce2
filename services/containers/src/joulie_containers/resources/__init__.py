"""The resource manager: places containers on CPUs and memory nodes."""
