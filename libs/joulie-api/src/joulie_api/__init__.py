"""How Joulie reaches Kubernetes: client, reflector, apply, election, settings, metrics."""
