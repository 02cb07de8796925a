"""Fixtures that several test modules share; each is defined beside its peer."""

from tests.peers.wandb_fixtures import wandb_server, watch_wandb

__all__ = ["wandb_server", "watch_wandb"]
