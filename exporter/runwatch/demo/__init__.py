"""`runwatch demo`: the exporter on real captures, with a real Prometheus where one is installed."""
