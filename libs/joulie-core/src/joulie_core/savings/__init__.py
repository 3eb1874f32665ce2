"""Savings: watts that Joulie saves, by lever and with an interval, and their sums: docs/decisions/0046-savings.md."""

from joulie_core.savings.ledger import LedgerPeriod, SavingsLedger, SavingsSum
from joulie_core.savings.rates import EstimateRange, Lever, LeverRate

__all__ = ["EstimateRange", "LedgerPeriod", "Lever", "LeverRate", "SavingsLedger", "SavingsSum"]
