"""A sandbox for Harbor that is a plain folder: no containers, the real files. Runs in Harbor's own Python environment.

`RIG_ROOT` names the folder below which each trial has its own root. A task called `envfail-*` never starts.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from asyncio.subprocess import PIPE
from pathlib import Path

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import EnvironmentCapabilities

_FOLDERS = ("logs/agent", "logs/verifier", "logs/artifacts", "tests", "solution", "app")


class LocalEnvironment(BaseEnvironment):
    """Commands run on this machine, with the sandbox's absolute paths put below the trial's root."""

    @staticmethod
    def type() -> str:
        return "local-folder"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        return EnvironmentCapabilities(disable_internet=True)

    def _validate_definition(self) -> None:
        return None

    def _inside(self, path: object) -> Path:
        return Path(os.environ["RIG_ROOT"], self.session_id, str(path).lstrip("/"))

    async def start(self, force_build: bool) -> None:
        if "envfail" in self.session_id:
            raise RuntimeError("sandbox quota exceeded")
        for folder in _FOLDERS:
            self._inside(folder).mkdir(parents=True, exist_ok=True)

    async def stop(self, delete: bool) -> None:
        return None

    async def upload_file(self, source_path: str, target_path: str) -> None:
        self._inside(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source_path, self._inside(target_path))

    async def upload_dir(self, source_dir: str, target_dir: str) -> None:
        shutil.copytree(source_dir, self._inside(target_dir), dirs_exist_ok=True)

    async def download_file(self, source_path: str, target_path: str) -> None:
        Path(target_path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(self._inside(source_path), target_path)

    async def download_dir(self, source_dir: str, target_dir: str) -> None:
        shutil.copytree(self._inside(source_dir), target_dir, dirs_exist_ok=True)

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: int | None = None,
        user: str | None = None,
    ) -> ExecResult:
        root = str(self._inside(""))
        for folder in ("/logs", "/tests", "/solution", "/app"):
            command = command.replace(folder, root + folder)
        variables = {**os.environ, "ROOTD": root, **(env or {})}
        process = await asyncio.create_subprocess_shell(command, stdout=PIPE, stderr=PIPE, env=variables)
        output, errors = await process.communicate()
        return ExecResult(stdout=output.decode(), stderr=errors.decode(), return_code=process.returncode)
