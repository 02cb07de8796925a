"""A real Alertmanager for the demo: our routes, grouping and inhibition, but nobody outside is called."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from runwatch.alerting.files import generated_files
from runwatch.demo.children import LOOPBACK, Children
from runwatch.demo.servers import Server, Wait, start_server

_PROGRAMS = ("prometheus-alertmanager", "alertmanager")  # Debian's name, and the project's own
_PEOPLE = ("-page", "-notify")


def program() -> str | None:
    """Return the path of Alertmanager, None where it is not installed."""
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)


def query_command(alertmanager: Server) -> str | None:
    """Return a command that shows all alerts, the muted ones too (Debian's has no page); None without amtool."""
    amtool = shutil.which("amtool")
    return (
        None if amtool is None else f"{amtool} --alertmanager.url={alertmanager.url} alert query --inhibited --active"
    )


def demo_config(pages_url: str) -> str:
    """Return our config with other receivers: those that call people post to `pages_url`, the others do nothing.

    Routes, grouping, waits and inhibition are the real ones. Each receiver posts to a path that is its name.
    """
    config = yaml.safe_load(generated_files()["alertmanager.yml"])
    config["templates"] = []
    config["receivers"] = [
        {"name": name, "webhook_configs": [{"url": f"{pages_url}/{name}"}]}
        if name.endswith(_PEOPLE)
        else {"name": name}
        for name in (receiver["name"] for receiver in config["receivers"])
    ]
    return yaml.safe_dump(config, sort_keys=False)


def start(children: Children, program_path: str, folder: Path, wait: Wait, *, pages_url: str) -> Server | str:
    """Start Alertmanager on a free port, without peers.

    Args:
        children: Where it is started.
        program_path: The program.
        folder: For its configuration, data and log.
        wait: Lets time pass.
        pages_url: Where its notifications go.

    Returns:
        The server, or why there is none.
    """
    folder.mkdir()
    config = folder / "alertmanager.yml"
    config.write_text(demo_config(pages_url), encoding="utf-8")

    def arguments(port: int, data: Path) -> list[str]:
        return [
            program_path,
            f"--config.file={config}",
            f"--storage.path={data}",
            f"--web.listen-address={LOOPBACK}:{port}",
            f"--web.external-url=http://{LOOPBACK}:{port}/",
            "--cluster.listen-address=",
            "--log.level=warn",
        ]

    return start_server(children, "Alertmanager", folder, arguments, wait)
