"""What a Dockerfile says, and its steps done in a folder instead of an image: no engine is needed."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from dockerfile_parse import DockerfileParser

ROOT = Path(__file__).parents[2]
_CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


@dataclass(frozen=True)
class Step:
    """One instruction: its word in capitals and what follows it, with continued lines joined."""

    word: str
    value: str


def stages(text: str) -> list[list[Step]]:
    """Return the steps of each stage, FROM first."""
    parsed: list[list[Step]] = []
    for entry in DockerfileParser(fileobj=io.BytesIO(text.encode())).structure:
        step = Step(entry["instruction"], entry["value"])
        if step.word == "FROM":
            parsed.append([])
        if step.word != "COMMENT" and parsed:
            parsed[-1].append(step)
    return parsed


def listed(value: str) -> list[str]:
    """Return an instruction in the form of a JSON list."""
    items: list[str] = json.loads(value)
    return items


@dataclass
class FolderImage:
    """A folder that stands for an image's root: absolute paths of the steps are below it."""

    root: Path
    context: Path
    python: str
    folder: str = "/"
    environment: dict[str, str] = field(default_factory=dict)

    def perform(self, step: Step) -> None:
        """Do one step of the build stage; steps that a folder cannot have are an error."""
        if step.word in ("FROM", "ARG"):
            return
        if step.word == "WORKDIR":
            self.folder = step.value
            self._inside(step.value).mkdir(parents=True, exist_ok=True)
        elif step.word == "ENV":
            self.environment.update(dict(part.split("=", 1) for part in step.value.split()))
        elif step.word == "COPY":
            self._copy(step.value.split())
        elif step.word == "RUN":
            self._run(step.value)
        else:
            raise AssertionError(f"a build stage with {step.word}: say here how it is done in a folder")

    def _inside(self, path: str) -> Path:
        return self.root / (Path(self.folder) / path).as_posix().lstrip("/")

    def _copy(self, words: list[str]) -> None:
        *sources, target = words
        for source in sources:
            into = self._inside(target)
            into = into / Path(source).name if target.endswith("/") else into
            into.parent.mkdir(parents=True, exist_ok=True)
            if (self.context / source).is_dir():
                shutil.copytree(self.context / source, into, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
            else:
                shutil.copy(self.context / source, into)

    def _run(self, command: str) -> None:
        moved = re.sub(r"(?<![\w.])/opt/(?=runwatch|build)", f"{self._inside('/opt')}/", command)
        moved = re.sub(r"(?<![\w/])python (?=-m)", f"{self.python} ", moved)
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.root),
            **{name: value for name, value in self.environment.items() if name != "PIP_NO_CACHE_DIR"},
            # Downloads are kept between runs, and modules are not compiled: what is installed is the same.
            "UV_COMPILE_BYTECODE": "0",
            "PIP_NO_COMPILE": "1",
            "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip")),
            "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", str(Path.home() / ".cache" / "uv")),
            **{name: os.environ[name] for name in _CERTIFICATES if name in os.environ},
        }  # fmt: skip
        done = subprocess.run(
            ["sh", "-c", moved],
            cwd=self._inside(self.folder),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=400,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
