"""Nodes that sleep in a demo: servers with simulated BMCs, their power at the wall, Joulie's settings for them."""
