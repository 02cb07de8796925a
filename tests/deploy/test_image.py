"""The image: its Dockerfile is sound, what it installs is locked, and its steps make an exporter for nobody's user."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.deploy.image_steps import ROOT, FolderImage, listed, stages

DOCKERFILE = (ROOT / "Dockerfile").read_text()
LOCK = "".join((ROOT / "deploy" / "image" / name).read_text() for name in ("requirements.txt", "build.txt"))
USER = 65532


def project_build() -> list[str]:
    """Return what builds the project, which the image's build must have too."""
    requires: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    return requires


def locked() -> dict[str, Version]:
    """Return the locked version of each package."""
    lines = re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", LOCK, re.MULTILINE)
    return {canonicalize_name(name): Version(version) for name, version in lines}


def test_hadolint_finds_nothing() -> None:
    program = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([program, "--no-color", ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_it_is_of_two_stages_on_a_named_version_and_ends_as_nobody() -> None:
    build, final = stages(DOCKERFILE)
    base = re.search(r"^ARG PYTHON_IMAGE=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert base is not None and re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", base[1])
    assert build[0].value == "${PYTHON_IMAGE} AS build"
    assert final[0].value == "${PYTHON_IMAGE}"
    words = [step.word for step in final]
    assert [step.value for step in final if step.word == "USER"] == [f"{USER}:{USER}"]
    assert words.index("USER") > max(index for index, word in enumerate(words) if word in ("RUN", "COPY"))
    copied = [step.value for step in final if step.word == "COPY"]
    assert copied == ["--from=build /opt/runwatch /opt/runwatch"]
    assert not {"ADD", "VOLUME"} & set(words)
    assert not re.search(r"(?i)key|token|secret|password", " ".join(s.value for s in final if s.word in ("ENV", "ARG")))


def test_every_dependency_is_locked_in_a_version_that_the_project_allows() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    versions = locked()
    for text in (*project["dependencies"], *project_build()):
        requirement = Requirement(text)
        assert requirement.specifier.contains(versions[canonicalize_name(requirement.name)]), text
    blocks = re.split(r"^(?=\S)", LOCK, flags=re.MULTILINE)
    unhashed = [block for block in blocks if "==" in block and "--hash=sha256:" not in block]
    assert not unhashed


def test_nothing_but_what_the_image_is_made_of_is_sent_to_the_builder() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    copied = {
        word
        for stage in stages(DOCKERFILE)
        for step in stage
        if step.word == "COPY" and not step.value.startswith("--from")
        for word in step.value.split()[:-1]
    }
    assert "*" in lines
    assert let_in == copied


@pytest.fixture(scope="module")
def image() -> Iterator[FolderImage]:
    """The build stage, done in a folder that every user may look into."""
    folder = Path(tempfile.mkdtemp(prefix="image-"))
    folder.chmod(0o755)
    try:
        made = FolderImage(folder / "root", ROOT, interpreter())
        made.root.mkdir()
        for step in stages(DOCKERFILE)[0]:
            made.perform(step)
        yield made
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)  # tens of thousands of files: rmtree takes long


def _open_to_all(program: Path) -> bool:
    """Whether every user may run a program: one in somebody's home is not, and root's own rights would not tell."""
    return all(path.stat().st_mode & 0o001 for path in (program, *program.parents))


def interpreter() -> str:
    """Return the Python of these tests or, where other users may not run it, the system's."""
    own = Path(sys._base_executable).resolve()  # type: ignore[attr-defined]
    system = Path("/usr/bin/python3").resolve()
    return str(own if _open_to_all(own) or not (system.exists() and _can_make_environments(system)) else system)


def _can_make_environments(python: Path) -> bool:
    test = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"
    return subprocess.run([python, "-c", test], capture_output=True, check=False).returncode == 0


def _as_nobody() -> dict[str, int]:
    return {"user": USER, "group": USER} if os.geteuid() == 0 and _open_to_all(Path(interpreter())) else {}


def test_the_steps_make_an_exporter_that_writes_only_where_it_may(image: FolderImage) -> None:
    _, final = stages(DOCKERFILE)
    opt = image.root / "opt" / "runwatch"
    writable = image.root.parent / "writable"
    for name in ("tmp", "state"):
        (writable / name).mkdir(parents=True)
        os.chown(writable / name, *(USER, USER) if os.geteuid() == 0 else (-1, -1))
    writable.chmod(0o755)
    rows = image.root / "rows.jsonl"
    rows.write_text(f'{{"_step": 7, "_timestamp": {time.time() - 30}, "loss": 1.5}}\n')
    config = image.root / "etc" / "runwatch" / "runwatch.yaml"
    config.parent.mkdir(parents=True)
    config.write_text(
        f"listen: 127.0.0.1:0\nstate_file: {writable}/state/state.json\n"
        f"jobs: [{{run: a, bucket: sft, history: {{jsonl: {rows}}}}}]\n"
    )
    config.chmod(0o644)
    entry = listed(next(step.value for step in final if step.word == "ENTRYPOINT"))
    arguments = listed(next(step.value for step in final if step.word == "CMD"))
    arguments = [str(config) if word == "/etc/runwatch/runwatch.yaml" else word for word in arguments]
    environment = {"PATH": f"{opt}/bin:/usr/bin:/bin", "HOME": f"{writable}/tmp", "TMPDIR": f"{writable}/tmp"}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    before = time.time()
    process = subprocess.Popen(
        [str(opt / "bin" / entry[0]), *arguments],
        env=environment,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **_as_nobody(),
    )
    assert process.stdout is not None
    try:
        address = next(line.split()[1] for line in process.stdout if line.startswith("serving "))
        deadline = time.monotonic() + 60
        while "\nmljob_step{" not in (metrics := httpx.get(f"{address}/metrics", timeout=30).text):
            assert time.monotonic() < deadline, metrics
            time.sleep(0.1)
        assert 'mljob_step{run="a",bucket="sft",site="none"} 7' in metrics
    finally:
        process.terminate()
        process.stdout.read()
        process.wait(30)
        process.stdout.close()
    changed = [path for path in image.root.rglob("*") if path.is_file() and path.stat().st_mtime > before]
    assert changed == []
    assert not list(opt.glob("lib/python*/site-packages/pip")), "no installer is left in the image"


def test_health_is_asked_at_the_port_that_is_exposed() -> None:
    _, final = stages(DOCKERFILE)
    values = {step.word: step.value for step in final}
    assert values["EXPOSE"] == "9877"
    assert "127.0.0.1:9877/-/healthy" in values["HEALTHCHECK"]
    chart = yaml.safe_load((ROOT / "helm" / "runwatch" / "values.yaml").read_text())
    assert chart["podSecurityContext"]["runAsUser"] == USER
