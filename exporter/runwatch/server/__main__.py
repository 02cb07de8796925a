"""`python -m runwatch.server`: started by `ServerProcess` alone, with the file descriptors that it inherits."""

import signal

# Before anything slow is imported: Ctrl-C reaches the whole foreground group, and is the parent's to handle.
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)

import json  # noqa: E402
import logging  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

from runwatch.server.limits import Limits  # noqa: E402
from runwatch.server.messages import Channel  # noqa: E402
from runwatch.server.serving import serve  # noqa: E402


def main() -> int:
    """Serve with the settings of the one argument, a JSON object."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    settings = json.loads(sys.argv[1])
    web_config = settings["web_config"]
    return serve(
        Channel(socket.socket(fileno=settings["channel"])),
        [socket.socket(fileno=descriptor) for descriptor in settings["listen"]],
        Path(web_config) if web_config is not None else None,
        settings["lifecycle"],
        Limits(**settings["limits"]),
    )


if __name__ == "__main__":
    sys.exit(main())
