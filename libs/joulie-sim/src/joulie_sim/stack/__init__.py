"""Joulie's own services as local processes on a development cluster, each with the RBAC roles it has in production."""
