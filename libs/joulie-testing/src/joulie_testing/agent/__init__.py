"""Simulated hardware, for tests of the agent and of its users."""
