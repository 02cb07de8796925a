"""A corpus of timelines of upstream facts, each with the exact alerts that must fire and when."""
