"""Access to Kubernetes, and what all services share: client, reflector, apply, election, settings, metrics."""
