"""Draws the dashboards with Grafana's own components in headless Chromium: `python -m tests.grafana.pictures FOLDER`.

Tables, stats and time series are drawn, dark and light, as Grafana 11.6 draws them. `@grafana/ui` has no timeline:
these are bars of the page's own, which say so. The fleet is that of the tests, watched for some minutes in which one of
its jobs goes on. The npm packages of the page are large (600 MB); the tests need none of them.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import Any

from tests.grafana.moving_run import going_on
from tests.grafana.node_installation import HOW_TO_INSTALL, node_installation
from tests.grafana.node_programs import SOURCES, build_panel_program, installed_node, packages_of
from tests.grafana.watched_fleet import watched_fleet
from tests.http_serving import serving_http

DASHBOARDS = Path(__file__).parents[2] / "grafana" / "dashboards"
PAGE = SOURCES / "pictures"
WATCHED_SECONDS = 180
WIDTH, ROW = 1440, 38
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
UNDRAWN = "it could not be drawn"
"""What the page says on the browser's console where a panel or all of it fails."""
PAINTED = "all of it is painted"
"""What it says once every graph is."""
TRIES = 4
PAGES = {
    "run-rl": ("run", {"run": "math-rl", "site": "lab"}),
    "run-collapsed": ("run", {"run": "collapsed-rl", "site": "desk"}),
    "run-sft": ("run", {"run": "delphi", "site": "lab"}),
    "run-datagen": ("run", {"run": "datagen-qwen", "site": "desk"}),
}
"""Pages of one job, by the picture's name."""


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing of each request."""


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    handler = functools.partial(_Quiet, directory=str(folder))
    with serving_http(handler) as url:
        yield url


def build_page(folder: Path) -> None:
    """Build the page that draws one dashboard into a folder.

    It is built in a copy of the sources with the packages beside it, where Vite looks for them.

    Raises:
        RuntimeError: npm or Vite failed.
    """
    modules = packages_of(PAGE)
    with tempfile.TemporaryDirectory() as temporary:
        sources = Path(temporary) / "node"
        shutil.copytree(SOURCES, sources)
        (sources / "node_modules").symlink_to(modules, target_is_directory=True)
        command = [
            *installed_node().node,
            str(modules / "vite" / "bin" / "vite.js"),
            "build",
            "--outDir",
            str(folder),
            "--logLevel",
            "error",
        ]
        ran = subprocess.run(command, cwd=sources / PAGE.name, capture_output=True, check=False, text=True)
        if ran.returncode != 0:
            raise RuntimeError(f"the page cannot be built:\n{ran.stdout}{ran.stderr}")


def _questions(folder: Path) -> dict[str, dict[str, Any]]:
    files = {path.stem: json.loads(path.read_text()) for path in sorted(DASHBOARDS.glob("*.json"))}
    asked: dict[str, tuple[str, dict[str, str]]] = {name: (name, {}) for name in files if name != "run"} | PAGES
    program = build_panel_program(folder)
    with watched_fleet(folder) as watched, going_on(folder, WATCHED_SECONDS):
        time.sleep(WATCHED_SECONDS)
        end = time.time()
        question = {
            "dashboards": [{"dashboard": files[name], "variables": given} for name, given in asked.values()],
            "prometheus": watched.prometheus.url,
            "scrapeInterval": "1s",
            "from": (end - WATCHED_SECONDS) * 1000,
            "to": end * 1000,
            "withFrames": True,
        }
        answers = program.run(question)
    return {
        picture: {
            "dashboard": files[name],
            "variables": given,
            "shown": answer["panels"],
            "from": question["from"],
            "to": question["to"],
        }
        for (picture, (name, given)), answer in zip(asked.items(), answers, strict=True)
    }


def _height(dashboard: dict[str, Any]) -> int:
    panels = [inner for panel in dashboard["panels"] for inner in (panel, *panel.get("panels", ()))]
    rows: list[int] = [panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels]
    return max(rows) * ROW


def _browser() -> str | None:
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def _draw(browser: str, url: str, height: int, picture: Path) -> None:
    """Write the picture of a page.

    Raises:
        RuntimeError: the browser failed, or a script of the page did.
    """
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory() as profile:
            command = [
                browser,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--enable-logging=stderr",
                "--run-all-compositor-stages-before-draw",
                f"--user-data-dir={profile}",
                f"--window-size={WIDTH},{height}",
                "--virtual-time-budget=60000",
                f"--screenshot={picture}",
                url,
            ]
            ran = subprocess.run(command, capture_output=True, check=False, text=True, timeout=300)
        said = [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
        faults = [line for line in said if "Uncaught" in line or UNDRAWN in line]
        if faults or ran.returncode != 0 or not picture.exists():
            raise RuntimeError(f"{picture.name} could not be drawn:\n" + ("\n".join(faults) or ran.stderr))
        # The browser's own clock runs on while a busy machine has not painted all yet.
        if any(PAINTED in line for line in said):
            return
    raise RuntimeError(f"{picture.name} was not painted in time, tried {TRIES} times")


def _missing(browser: str | None) -> list[str]:
    """Return what is to be installed first, one line each."""
    missing = [] if node_installation() else [HOW_TO_INSTALL]
    if browser is None:
        missing.append("a browser is missing: the Debian package `chromium`")
    if shutil.which("prometheus") is None:
        missing.append("Prometheus is missing: the Debian package `prometheus`")
    return missing


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw the dashboards with Grafana's own components.")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    folder: Path = parser.parse_args().folder
    browser = _browser()
    missing = _missing(browser)
    if browser is None or missing:
        print("\n".join(missing), file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        page = Path(temporary) / "page"
        build_page(page)
        work = Path(temporary) / "work"
        work.mkdir()
        questions = _questions(work)
        with _served(page) as address:
            for name, question in questions.items():
                (page / f"{name}.json").write_text(json.dumps(question))
                for theme in ("dark", "light"):
                    url = f"{address}/index.html?theme={theme}&question=./{name}.json"
                    _draw(browser, url, _height(question["dashboard"]), folder / f"{name}-{theme}.png")
                    print(folder / f"{name}-{theme}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
