"""The running estimate of what Joulie saves, made by the leading operator: docs/decisions/0046-savings.md."""
