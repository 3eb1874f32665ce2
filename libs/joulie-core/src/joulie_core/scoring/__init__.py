"""Which nodes a pod may run on and how well each suits it. Source: scheduler-extender document."""
