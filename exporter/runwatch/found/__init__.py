"""What discovery found: which records are one job, where its facts lie, and what a `*` stands for."""
