"""Power and speed of servers and devices: docs/models.md has the formulas, their errors and their limits."""
