"""The HTTP server, a process of its own that is fed whole bodies and renders nothing."""
