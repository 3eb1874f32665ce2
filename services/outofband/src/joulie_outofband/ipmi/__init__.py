"""IPMI: power by the chassis commands, watts and a power limit by DCMI."""
