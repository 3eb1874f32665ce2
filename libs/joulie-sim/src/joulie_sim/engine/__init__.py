"""Discrete-event simulation of a cluster under kube-scheduler, with or without Joulie's decisions.

See docs/decisions/0018-simulator-engine.md.
"""
