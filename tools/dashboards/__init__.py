"""The Grafana dashboards, written as tables of queries and generated with grafana-foundation-sdk."""
