"""The configuration file: its types (`model`), reading it with line numbers (`load`), its reference (`reference`)."""
