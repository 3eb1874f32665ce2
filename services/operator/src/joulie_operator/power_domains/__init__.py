"""Power domains in mode Observe, decided by the leading operator: docs/decisions/0047-power-budgets.md."""
