"""The alert rules, and Alertmanager's config, made from the thresholds: `python -m runwatch.alerting alerts`."""
