"""Power budgets of nodes: their watch, and what is reported of them; see docs/power-budgets.md."""
