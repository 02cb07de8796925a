"""Which Iris record is the job that people mean: a coordinator's newest training child, or the job itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from runwatch.facts import SchedulerState
from runwatch.parsing.iris import KILLED_BY_USER, JobRecord, scheduler_state

_TRAINING_NAMES = ("checkpoints-", "train")
"""How the local names of training children begin: marin's executor writes the first, people the second."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What is known of a configured job.

    `job` is the record whose tasks count. `above` is the coordinator when `job` is its child. `links` are all training
    children, oldest first, `job` among them: a coordinator that is placed again submits its child anew.
    `waits_for_child` is set on a coordinator that has no training child yet.
    """

    job: JobRecord
    above: JobRecord | None = None
    links: tuple[JobRecord, ...] = ()
    waits_for_child: bool = False

    @property
    def root(self) -> JobRecord:
        """The configured job's own record, or the child's where its own is gone."""
        return self.above or self.job


def children_by_parent(records: Iterable[JobRecord]) -> dict[str, list[JobRecord]]:
    """Sort records below the ids of the jobs directly above them."""
    found: dict[str, list[JobRecord]] = {}
    for record in records:
        found.setdefault(record.parent, []).append(record)
    return found


def select_job(
    job_id: str, records: Mapping[str, JobRecord], children: Mapping[str, list[JobRecord]]
) -> Selection | None:
    """Find the record that a configured job's facts are of.

    The newest direct child (by submission) with a training child's name counts. Where none has one, the newest child
    counts while it runs and the job above it is a single task: an executor's other steps end before the training
    begins, and a gang with children is itself the training.

    Args:
        job_id: the configured id.
        records: a listing by id.
        children: the same by parent, as `children_by_parent` makes it.

    Returns:
        None where neither the job nor a child of it is in the listing.
    """
    own = records.get(job_id)
    below = sorted(children.get(job_id, []), key=lambda child: (child.submitted or 0.0, child.job_id))
    training = tuple(child for child in below if _is_training(child))
    if training:
        return Selection(training[-1], own, training)
    if own is None:
        return Selection(below[-1], None, (below[-1],)) if below else None
    single = own.task_count is None or own.task_count <= 1
    if below and single and not below[-1].over:
        return Selection(below[-1], own, (below[-1],))
    coordinates = single and not own.over and (bool(below) or job_id.endswith("-coord"))
    return Selection(own, waits_for_child=coordinates)


def selected_state(selection: Selection) -> tuple[SchedulerState, str]:
    """Return the state of a selection and why.

    A child that was killed, though by no person, ended on account of the job above it: while that one goes on it will
    be submitted again, and once that one is over its end counts.
    """
    job, above = selection.job, selection.above
    state, detail = scheduler_state(job)
    if above is None or not killed_from_above(job):
        return state, detail
    state_above, detail_above = scheduler_state(above)
    if not above.over:
        return SchedulerState.PREEMPTED, f"ended with the job above it, which goes on: {detail}"
    if state_above is SchedulerState.SUCCEEDED:
        return state, detail
    return state_above, f"ended with the job above it: {detail_above}"


def killed_from_above(job: JobRecord) -> bool:
    """Whether a child was killed, and not by a person."""
    return job.state == "JOB_STATE_KILLED" and job.error != KILLED_BY_USER


def _is_training(child: JobRecord) -> bool:
    return child.job_id.rpartition("/")[2].startswith(_TRAINING_NAMES)
