"""How far the chunks of a datagen job are."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from runwatch.facts import TrialsUpdate
from runwatch.measurements import Evidence
from runwatch.thresholds import CHUNK_HUNG_SECONDS, CLOCK_SLACK_SECONDS

EVIDENCE_NUMBERS = 20
_TOPIC = "chunks"


@dataclass(frozen=True, slots=True)
class ChunkProgress:
    """One chunk: whether a job folder of it is there, whether all of these wrote that they ended, its last news."""

    number: int
    begun: bool
    finished: bool
    changed: float | None


def chunk_progress(update: TrialsUpdate) -> tuple[ChunkProgress, ...]:
    """Return every chunk there will be, in order; none where the work is not in chunks."""
    found = []
    for number in update.chunks:
        folders = [folder for folder in update.folders if folder.chunk == number]
        times = [folder.changed for folder in folders if folder.changed is not None]
        finished = bool(folders) and all(folder.finished for folder in folders)
        found.append(ChunkProgress(number, bool(folders), finished, max(times, default=None)))
    return tuple(found)


def chunk_states(
    chunks: tuple[ChunkProgress, ...],
    *,
    observed: float,
    is_over: bool,
    logs: Mapping[int, float],
    failed: Set[int] = frozenset(),
) -> dict[int, str]:
    """Return each chunk's state, a word of `CHUNK_STATES`.

    A chunk that began (its job folder is there, or its log) and whose job did not write that it ended runs; when the
    whole datagen job is over it failed. It failed as well where its log ends so, also when Harbor had finished and the
    script after it saved nothing; but not when results came after that: it was started anew. It is hung when its log
    and its trials both were silent for two hours: where its log is not known, unmoved trials alone do not say so, for a
    hard trial may take as long.

    Args:
        chunks: what was read.
        observed: when it was read, Unix seconds.
        is_over: whether the datagen job ended.
        logs: when each chunk's log was last written, as far as that is known.
        failed: the chunks whose log ends in a failure of theirs.
    """
    states = {}
    for chunk in chunks:
        written = logs.get(chunk.number)
        if chunk.number in failed and not _went_on(chunk, written):
            states[chunk.number] = "failed"
        else:
            states[chunk.number] = _state(chunk, observed, is_over, written)
    return states


def evidence_of_chunks(states: Mapping[int, str], logs: Mapping[int, float] | None) -> list[Evidence]:
    """Tell which chunks are in which state, and whether hung ones could be told."""
    evidence = []
    for state in sorted(set(states.values())):
        numbers = [number for number, found in states.items() if found == state]
        more = f" and {len(numbers) - EVIDENCE_NUMBERS} more" if len(numbers) > EVIDENCE_NUMBERS else ""
        listed = ", ".join(str(number) for number in numbers[:EVIDENCE_NUMBERS])
        evidence.append(Evidence(_TOPIC, f"{state}: chunk {listed}{more}", {"state": state, "count": len(numbers)}))
    unknown = [number for number, found in states.items() if found == "running" and number not in (logs or {})]
    if unknown:
        text = f"the logs of {len(unknown)} running chunks are not known: whether they hang cannot be told"
        evidence.append(Evidence(_TOPIC, text))
    return evidence


def _went_on(chunk: ChunkProgress, log_written: float | None) -> bool:
    if chunk.changed is None or log_written is None:
        return False
    return chunk.changed > log_written + CLOCK_SLACK_SECONDS


def _state(chunk: ChunkProgress, observed: float, is_over: bool, log_written: float | None) -> str:
    if chunk.finished:
        return "done"
    if not chunk.begun and log_written is None:
        return "pending"
    if is_over:
        return "failed"
    moved = max(log_written or 0.0, chunk.changed or 0.0)
    return "hung" if log_written is not None and observed - moved > CHUNK_HUNG_SECONDS else "running"
