"""Redfish: one connection to one BMC, and what is found behind it."""
