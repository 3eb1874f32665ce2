"""Power domains, observed or enforced by the leading operator: docs/decisions/0047-power-budgets.md, 0052."""
