"""The `runwatch` command. Nothing of weight is imported before a command needs it, so `--help` is quick."""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Any

import click

EXIT_BAD_CONFIG = 2
EXIT_SOURCE_FAILED = 3

_config_option = click.option(
    "--config", "config_path", required=True, type=click.Path(path_type=Path), help="The config file."
)
_LATEST = 253402300799.0  # the calendar ends with the year 9999; milliseconds by mistake lie beyond it


def _moment(_context: click.Context, _parameter: click.Parameter, at: float | None) -> float | None:
    if at is None or 0 <= at <= _LATEST:  # NaN is not
        return at
    raise click.BadParameter(f"expected Unix seconds up to the year 9999, got {at:g}")


_at_option = click.option(
    "--at",
    type=float,
    callback=_moment,
    metavar="UNIX",
    help='Fixes "now" (Unix seconds, fractions allowed) and hides everything recorded later.',
)
_json_option = click.option("--json", "as_json", is_flag=True, help="For scripts.")


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or context.resilient_parsing:
        return
    from runwatch import __version__
    from runwatch.terminal import write

    write(f"runwatch {__version__}\n")
    context.exit()


class _Commands(click.Group):
    """The group of all commands; an output that takes no more is told in one line, click's own help too."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the command line."""
        try:
            return super().main(*arguments, **options)
        except OSError as error:
            from runwatch.terminal import end_where_full

            end_where_full(error)
            raise


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Show it.")
def main() -> None:
    """Watch the jobs of people who train and evaluate language models, from outside."""
    # A dump of the memory would hold the keys and tokens of every upstream. Programs that are started inherit this.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


@main.command()
@click.argument("config_path", metavar="F", type=click.Path(path_type=Path))
def check(config_path: Path) -> None:
    """Validate a config: every fault on stderr, with its line and key."""
    from runwatch.config.load import check as check_config
    from runwatch.terminal import say, write

    config, faults, warnings = check_config(config_path)
    for warning in warnings:
        say(f"warning: {warning}")
    for fault in faults:
        say(str(fault))
    if config is None:
        sys.exit(EXIT_BAD_CONFIG)
    write(f"{config_path}: {len(config.jobs)} jobs listed, {len(config.discover)} discoveries, no fault\n")


@main.command()
@_config_option
@click.option(
    "--shard",
    metavar="I/N",
    help="Watch only part I (from 0 on) of N parts of the jobs. NAME-I/N is the same, so a pod's name will do.",
)
def serve(config_path: Path, shard: str | None) -> None:
    """Poll for ever and serve /metrics, the page, health and reload."""
    from runwatch.commands import serve as run
    from runwatch.ending import end_process

    end_process(run(config_path, shard))


@main.command()
@_config_option
@_at_option
def metrics(config_path: Path, at: float | None) -> None:
    """Poll every source once and print the exposition."""
    from runwatch.commands import print_metrics

    sys.exit(print_metrics(config_path, at))


@main.command()
@_config_option
@_at_option
@click.option("--bucket", type=click.Choice(["rl", "sft", "datagen", "eval", "other"]), help="Only this bucket.")
@_json_option
def tables(config_path: Path, at: float | None, bucket: str | None, as_json: bool) -> None:
    """Print the per-bucket tables."""
    from runwatch.commands import print_tables

    sys.exit(print_tables(config_path, at, bucket, as_json))


@main.command()
@_config_option
@_at_option
@click.argument("runs", nargs=-1, metavar="[RUN ...]")
def line(config_path: Path, at: float | None, runs: tuple[str, ...]) -> None:
    """Print one compact line a job and its health read."""
    from runwatch.commands import print_lines

    sys.exit(print_lines(config_path, at, runs))


@main.command()
@_config_option
@_at_option
@click.argument("run")
@_json_option
def explain(config_path: Path, at: float | None, run: str, as_json: bool) -> None:
    """Show the evidence behind a job's numbers."""
    from runwatch.commands import print_explanation

    sys.exit(print_explanation(config_path, at, run, as_json))


@main.command()
@click.option("--port", type=click.IntRange(0, 65535), default=9877, show_default=True, help="The exporter's port.")
def demo(port: int) -> None:
    """Run the exporter on real captures, with a real Prometheus where one is installed."""
    from runwatch.demo.run import run_demo

    sys.exit(run_demo(port))
