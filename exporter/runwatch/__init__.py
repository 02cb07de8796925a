"""runwatch: a Prometheus exporter for the jobs of people who train and evaluate language models."""

__version__ = "0.1.0"
