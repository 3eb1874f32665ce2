"""A day of 24 hours in minutes, without and with nodes that sleep: the same pods on the same nodes, side by side."""
