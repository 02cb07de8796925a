"""What holds for the tree as a whole: sizes, names, docstrings, imports, stated reasons."""

from __future__ import annotations

import ast
import fnmatch
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
PACKAGE = TOP / "exporter" / "runwatch"
LONGEST_MODULE = 400
EMPTY_NAMES = frozenset({"util", "utils", "helper", "helpers", "misc", "common"})

HEAVY_PACKAGES = (
    "wandb",
    "kubernetes",
    "google.cloud",
    "pydantic",
    "rich",
    "httpx",
    "uvicorn",
    "prometheus_client",
)

# In pieces, so that this file does not hold what it looks for.
FOREIGN_PATHS = re.compile(rb"(?<![\w.$}~-])/" + rb"work(?![\w-])|(?<![\w-])share" + rb"d/")

# Runs `runwatch --help` and then prints each module that it loaded on top of what every Python here starts with.
PRINT_IMPORTS = """
import atexit, runpy, sys
before = set(sys.modules)
atexit.register(lambda: print(*sorted(set(sys.modules) - before), sep="\\n", file=sys.stderr))
sys.argv = ["runwatch", "--help"]
runpy.run_module("runwatch", run_name="__main__", alter_sys=True)
"""


def project_files() -> Iterator[Path]:
    """Yield every file that is not ignored: `.gitignore` here names folders by their last part."""
    ignored = [line.strip().rstrip("/") for line in (TOP / ".gitignore").read_text().splitlines() if line.strip()]
    ignored.append(".git")
    for folder, folders, names in os.walk(TOP):
        folders[:] = [name for name in folders if not any(fnmatch.fnmatch(name, pattern) for pattern in ignored)]
        for name in names:
            path = Path(folder, name)
            # In a worktree `.git` is a file.
            if not path.is_symlink() and not any(fnmatch.fnmatch(name, pattern) for pattern in ignored):
                yield path


FILES = sorted(project_files())
MODULES = [path for path in FILES if path.suffix == ".py"]
PACKAGE_MODULES = [path for path in MODULES if path.is_relative_to(PACKAGE)]


def shown(path: Path) -> str:
    return str(path.relative_to(TOP))


def test_the_tree_was_found() -> None:
    names = {shown(path) for path in FILES}
    assert {"pyproject.toml", "Makefile", "LICENSE", "exporter/runwatch/catalogue.py", ".ci/run"} <= names
    assert not any(name.startswith((".git/", ".venv/")) for name in names)


def test_no_module_is_too_long() -> None:
    lengths = {shown(path): len(path.read_bytes().splitlines()) for path in MODULES}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_MODULE} == {}


def test_names_say_something() -> None:
    parts = [(path, [*path.relative_to(TOP).parts[:-1], path.name.split(".")[0]]) for path in FILES]
    assert [shown(path) for path, names in parts if EMPTY_NAMES & {name.lower() for name in names}] == []


def test_every_module_of_the_package_says_what_it_is_for() -> None:
    without = [
        shown(path)
        for path in PACKAGE_MODULES
        if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"), filename=str(path)))
    ]
    assert without == []


def test_every_dependency_says_why_it_is_there() -> None:
    text = (TOP / "pyproject.toml").read_text(encoding="utf-8")
    dependencies = tomllib.loads(text)["project"]["dependencies"]
    listed = text.partition("\ndependencies = [\n")[2].partition("\n]")[0]
    reasoned = re.findall(r'^\s*"([^"]+)",\s*# \w.*$', listed, re.MULTILINE)
    assert len(dependencies) >= 5
    assert sorted(dependencies) == sorted(reasoned)


def test_no_file_names_a_place_outside_the_project() -> None:
    found = []
    for path in FILES:
        content = path.read_bytes()
        if b"\0" not in content and (match := FOREIGN_PATHS.search(content)):
            line = content.count(b"\n", 0, match.start()) + 1
            found.append(f"{shown(path)}:{line}")
    assert found == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"cat /wor" + b"k/main/x", True),
        (b"see `/wor" + b"k`", True),
        (b"../share" + b"d/fixtures", True),
        (b"/scratch/work/run", False),
        (b"/workspace/run", False),
        (b"/work-dir", False),
        (b"unshared/", False),
        (b"shared by all", False),
    ],
)
def test_places_outside_are_told_from_other_paths(text: bytes, found: bool) -> None:
    assert bool(FOREIGN_PATHS.search(text)) is found


def test_help_imports_nothing_heavy() -> None:
    ran = subprocess.run([sys.executable, "-c", PRINT_IMPORTS], capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert ran.stdout.startswith("Usage: ")
    loaded = set(ran.stderr.split())
    assert "runwatch.cli" in loaded
    assert sorted(loaded & set(HEAVY_PACKAGES)) == []


def test_the_map_for_contributors_is_the_tree() -> None:
    text = (TOP / "CONTRIBUTING.md").read_text(encoding="utf-8")
    map_rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
    mapped = {name for cell in map_rows for name in re.findall(r"`([\w/.]+)`", cell) if not name.startswith("tests/")}
    top_level = {path.relative_to(PACKAGE).parts for path in PACKAGE_MODULES}
    there = {parts[0] if len(parts) == 1 else f"{parts[0]}/" for parts in top_level}
    assert mapped == there - {"__init__.py", "__main__.py"}
    named = re.findall(r"`((?:tests|config|sources|derive|parsing)/[\w/]*(?:\.py)?)`", text)
    assert [name for name in named if not (TOP / name).exists() and not (PACKAGE / name).exists()] == []
