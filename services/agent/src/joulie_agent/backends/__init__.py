"""Backends of readings and controls: one protocol, and one module per way to reach the hardware."""
