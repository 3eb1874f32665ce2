"""What the agent drives: one protocol, one module per way to reach the hardware."""
