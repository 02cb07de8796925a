"""Looks up known faults of every package that the image installs, and lists the packages in build/sbom.json.

    python scripts/audit.py                              # exit code 1: faults, 3: the database could not be asked
    python scripts/audit.py --no-answer-is-no-failure    # 0 in place of 3, for where there is no network

The list is in CycloneDX format. pip-audit and cyclonedx-py live in .venv-audit, which is made when it is missing:
they would only slow down the environment of the tests.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
ENVIRONMENT = ROOT / ".venv-audit"
LOCK = ROOT / "deploy" / "image" / "requirements.txt"
LIST = ROOT / "build" / "sbom.json"

FAULTS = 1
NO_ANSWER = 3


def prepare() -> None:
    """Make the environment with what pyproject.toml names for audits."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["audit"]
    stamp = ENVIRONMENT / ".installed"
    if stamp.exists() and stamp.read_text() == "\n".join(wanted):
        return
    venv.create(ENVIRONMENT, with_pip=True, clear=True)
    programs = ENVIRONMENT / "bin"
    subprocess.run([programs / "pip", "install", "--quiet", "--disable-pip-version-check", "uv"], check=True)
    install = [programs / "uv", "pip", "install", "--quiet", "--python", programs / "python", *wanted]
    subprocess.run(install, check=True)
    stamp.write_text("\n".join(wanted))


def write_list() -> int:
    """Write the list of packages and return how many there are."""
    LIST.parent.mkdir(exist_ok=True)
    program = ENVIRONMENT / "bin" / "cyclonedx-py"
    command = [program, "requirements", LOCK, "--output-reproducible", "--of", "JSON", "-o", LIST]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    return len(json.loads(LIST.read_text())["components"])


def look_up() -> list[str] | None:
    """Return a line for each known fault, None where the database gave no answer."""
    program = ENVIRONMENT / "bin" / "pip-audit"
    command = [program, "--disable-pip", "--require-hashes", "--requirement", LOCK, "--format", "json"]
    done = subprocess.run([*command, "--progress-spinner", "off"], capture_output=True, text=True, check=False)
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (json.JSONDecodeError, KeyError):
        print(f"pip-audit: {(done.stderr.strip().splitlines() or ['no output'])[-1]}", file=sys.stderr)
        return None
    skipped = [package["name"] for package in packages if "skip_reason" in package]
    if skipped:
        print(f"pip-audit could not look up {', '.join(skipped)}", file=sys.stderr)
        return None
    return [
        f"{package['name']} {package['version']}: {fault['id']}, mended in {', '.join(fault['fix_versions']) or '-'}"
        for package in packages
        for fault in package["vulns"]
    ]


def main(arguments: list[str]) -> int:
    """Do both; return the exit code."""
    prepare()
    print(f"{write_list()} packages listed in {LIST.relative_to(ROOT)}")
    faults = look_up()
    if faults is None:
        print("known faults: NOT looked up, the database gave no answer", file=sys.stderr)
        return 0 if "--no-answer-is-no-failure" in arguments else NO_ANSWER
    print("\n".join(faults) or "known faults: none")
    return FAULTS if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
