"""The configuration file: its types (`model`), reading it with line numbers (`load`), durations."""
