"""Sleeping nodes: reads the cluster, has `joulie_core.sleep` decide, stores its records and carries them out.

See docs/decisions/0024-sleeping-nodes.md.
"""
