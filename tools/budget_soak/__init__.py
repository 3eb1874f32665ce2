"""Simulated nodes, their agents, and leaders that divide a power budget among them, under faults in any order."""
