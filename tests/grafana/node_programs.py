"""The Node program that runs panels with Grafana's own code, with the npm packages that it needs.

The packages are those of `node/package-lock.json`. They are installed once, below `.venv-grafana/`, into a folder that
bears the lock's hash: another lock makes another folder, and what an earlier run left incomplete is never used.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.grafana.node_installation import HOW_TO_INSTALL, NodeInstallation, node_installation
from tests.required_programs import lacking

SOURCES = Path(__file__).parent / "node"
INSTALLED = Path(__file__).parents[2] / ".venv-grafana"
_INSTALL_SECONDS = 420
_RUN_SECONDS = 400


def node_programs() -> None:
    """Return if Node and npm are there; else a test fails in CI and is skipped elsewhere."""
    if node_installation() is None:
        lacking(HOW_TO_INSTALL)


def installed_node() -> NodeInstallation:
    """Return where Node is.

    Raises:
        RuntimeError: there is none that is new enough.
    """
    installation = node_installation()
    if installation is None:
        raise RuntimeError(HOW_TO_INSTALL)
    return installation


def packages_of(sources: Path) -> Path:
    """Return the `node_modules` of a folder's lock, installed if they are not there yet.

    Raises:
        RuntimeError: npm could not install them.
    """
    lock = sources / "package-lock.json"
    digest = hashlib.sha256(lock.read_bytes() + (sources / "package.json").read_bytes()).hexdigest()[:16]
    folder = INSTALLED / f"{sources.name}-{digest}"
    if folder.exists():
        return folder / "node_modules"
    INSTALLED.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=INSTALLED, prefix=".new-") as new:
        made = Path(new) / "packages"
        made.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(sources / name, made)
        # No script of any package is run.
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"]
        command = [*installed_node().npm, "ci", *options]
        ran = subprocess.run(command, cwd=made, capture_output=True, check=False, text=True, timeout=_INSTALL_SECONDS)
        if ran.returncode != 0:
            raise RuntimeError(f"npm ci failed in {sources}:\n{ran.stdout}{ran.stderr}")
        try:
            made.rename(folder)
        except OSError:
            if not folder.exists():  # another run of the tests was quicker
                raise
    return folder / "node_modules"


@dataclass(frozen=True, slots=True)
class PanelProgram:
    """The built program."""

    path: Path

    def run(self, question: dict[str, Any]) -> list[dict[str, Any]]:
        """Return for each dashboard what its panels and annotations show; `node/panels.mjs` tells the question.

        Raises:
            RuntimeError: the program failed.
        """
        ran = subprocess.run(
            [*installed_node().node, str(self.path)],
            input=json.dumps(question),
            capture_output=True,
            check=False,
            text=True,
            timeout=_RUN_SECONDS,
        )
        if ran.returncode != 0:
            raise RuntimeError(f"node {self.path} failed:\n{ran.stderr}")
        answer: list[dict[str, Any]] = json.loads(ran.stdout)
        return answer


def build_panel_program(folder: Path) -> PanelProgram:
    """Bundle the sources into one file in a folder: the packages are not beside them, and are written for bundlers."""
    modules = packages_of(SOURCES)
    built = folder / "panels.mjs"
    transformer = modules / "@grafana" / "prometheus" / "dist" / "esm" / "result_transformer.mjs"
    command = [
        *installed_node().node,
        str(modules / "esbuild" / "bin" / "esbuild"),
        str(SOURCES / "panels.mjs"),
        "--bundle",
        "--platform=node",
        "--format=esm",
        "--log-level=warning",
        f"--alias:@grafana/runtime={SOURCES / 'left_out.mjs'}",
        f"--alias:grafana-result-transformer={transformer}",
        f"--outfile={built}",
    ]
    environment = {**os.environ, "NODE_PATH": str(modules)}
    ran = subprocess.run(command, env=environment, capture_output=True, check=False, text=True, timeout=120)
    if ran.returncode != 0:
        raise RuntimeError(f"the panels' program cannot be built:\n{ran.stderr}")
    return PanelProgram(built)
