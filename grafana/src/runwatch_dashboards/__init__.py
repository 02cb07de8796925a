"""Grafana dashboards as code: columns, limits and words come from the exporter's own homes of them."""
