"""What a job's checkpoint folders tell: the newest complete one, how far behind the steps, how often one comes."""

from __future__ import annotations

from collections.abc import Mapping

from runwatch.derive.checkpoint_interval import checkpoint_interval
from runwatch.facts import Checkpoint, CheckpointListing, TrainerFacts
from runwatch.facts.checkpoints import newest_complete
from runwatch.measurements import Evidence, Measurements

EVIDENCE_CHECKPOINTS = 20
"""So many of the newest are told one by one in `explain`."""

_TOPIC = "checkpoints"


def measure_checkpoints(
    measurements: Measurements,
    listing: CheckpointListing,
    *,
    step: int | None,
    step_duration: float | None,
    trainer_config: Mapping[str, object],
    configured_interval: float | None,
) -> list[Evidence]:
    """Set the metrics of checkpoints and return the evidence behind them.

    The lag is below zero where a checkpoint is ahead of every step that the history showed; the evidence says so,
    since a checkpoint is durable and a history may be cut off.

    Args:
        measurements: where to set `mljob_checkpoint_*` and `mljob_checkpoints`.
        listing: a listing that was read: none in it means that there are none.
        step: the newest step of the history, None when none was read.
        step_duration: seconds a step over the whole run.
        trainer_config: the trainer's own configuration, nested or with dotted names.
        configured_interval: seconds between checkpoints by the exporter's config.
    """
    if not listing.not_looked_into:  # else how many are complete is not known
        complete = sum(checkpoint.complete for checkpoint in listing.checkpoints)
        measurements.set("mljob_checkpoints", complete, completeness="complete")
        measurements.set("mljob_checkpoints", len(listing.checkpoints) - complete, completeness="partial")
    evidence = _evidence_of_folders(listing)
    newest = newest_complete(listing.checkpoints)
    if newest is not None:
        measurements.set("mljob_checkpoint_step", newest.step)
        measurements.set("mljob_checkpoint_timestamp_seconds", newest.saved_at)
        if step is not None:
            measurements.set("mljob_checkpoint_lag_steps", step - newest.step)
            evidence += _evidence_of_disagreement(step, newest)
        if listing.trainer is not None:
            evidence.append(_evidence_of_trainer(newest, listing.trainer))
    if listing.trainer_log:
        evidence.append(Evidence(_TOPIC, listing.trainer_log, {"completed": listing.completed}))
    return evidence + measure_interval(
        measurements,
        listing,
        step_duration=step_duration,
        trainer_config=trainer_config,
        configured_interval=configured_interval,
    )


def measure_interval(
    measurements: Measurements,
    listing: CheckpointListing | None,
    *,
    step_duration: float | None,
    trainer_config: Mapping[str, object],
    configured_interval: float | None,
) -> list[Evidence]:
    """Set the interval between checkpoints, which configuration tells before a first listing does.

    Args:
        measurements: where to set `mljob_checkpoint_interval_seconds`.
        listing: a listing that was read, None while none was.
        step_duration: seconds a step over the whole run.
        trainer_config: the trainer's own configuration, nested or with dotted names.
        configured_interval: seconds between checkpoints by the exporter's config.
    """
    interval = checkpoint_interval(
        listing.checkpoints if listing is not None else (),
        step_duration=step_duration,
        trainer_config=trainer_config,
        configured=configured_interval,
        trainer=listing.trainer if listing is not None else None,
    )
    if interval is None and listing is None:
        return []
    if interval is None:
        return [Evidence(_TOPIC, "interval not known: not configured, and too few complete checkpoints")]
    measurements.set("mljob_checkpoint_interval_seconds", interval.seconds)
    text = f"interval {interval.seconds:g} s: {interval.source}"
    return [Evidence(_TOPIC, text, {"interval_seconds": interval.seconds, "source": interval.source})]


def _evidence_of_disagreement(step: int, newest: Checkpoint) -> list[Evidence]:
    if newest.step <= step:
        return []
    text = f"checkpoint at step {newest.step} is ahead of step {step}, the newest the history shows: they disagree"
    return [Evidence(_TOPIC, text, {"checkpoint_step": newest.step, "step": step})]


def _evidence_of_trainer(newest: Checkpoint, trainer: TrainerFacts) -> Evidence:
    """Tell what the Trainer itself wrote. It is no measurement: the history is newer, and may have gone back since."""
    fields: dict[str, object] = {"global_step": trainer.global_step}
    text = f"trainer_state.json of {newest.path}: step {trainer.global_step}"
    if trainer.max_steps is not None:
        text += f" of {trainer.max_steps}"
        fields["max_steps"] = trainer.max_steps
    if trainer.save_steps is not None:
        text += f", save_steps {trainer.save_steps}"
        fields["save_steps"] = trainer.save_steps
    if trainer.logged_step is not None:
        named = {"loss": trainer.loss, "grad norm": trainer.grad_norm, "learning rate": trainer.learning_rate}
        values = ", ".join(f"{name} {value:.6g}" for name, value in named.items() if value is not None)
        text += f"; it last logged at step {trainer.logged_step}: {values}"
        fields["logged_step"] = trainer.logged_step
    return Evidence(_TOPIC, text, fields)


def _evidence_of_folders(listing: CheckpointListing) -> list[Evidence]:
    ordered = sorted(listing.checkpoints, key=lambda checkpoint: (checkpoint.step, checkpoint.path), reverse=True)
    evidence = [_evidence_of(checkpoint) for checkpoint in ordered[:EVIDENCE_CHECKPOINTS]]
    older = ordered[EVIDENCE_CHECKPOINTS:]
    if older:
        complete = sum(checkpoint.complete for checkpoint in older)
        text = f"{len(older)} older ones: {complete} complete, {len(older) - complete} partial"
        evidence.append(Evidence(_TOPIC, text, {"complete": complete, "partial": len(older) - complete}))
    if not ordered:
        evidence.append(Evidence(_TOPIC, "no checkpoint folder yet"))
    return evidence + [Evidence(_TOPIC, note) for note in listing.notes]


def _evidence_of(checkpoint: Checkpoint) -> Evidence:
    completeness = "complete" if checkpoint.complete else "partial"
    fields: dict[str, object] = {
        "step": checkpoint.step,
        "path": checkpoint.path,
        "complete": checkpoint.complete,
        "kind": checkpoint.kind,
        "layout": checkpoint.layout,
    }
    if checkpoint.saved_at is not None:
        fields["saved_timestamp_seconds"] = checkpoint.saved_at
    return Evidence(_TOPIC, f"{checkpoint.path} {completeness}: {checkpoint.evidence}", fields)
