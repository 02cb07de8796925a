"""What a metric of the catalogue is: its section of the reference, its unit, its labels."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Section(StrEnum):
    """The part of the reference a metric stands in."""

    IDENTITY = "Identity and state"
    PROGRESS = "Progress"
    CHECKPOINTS = "Checkpoints"
    RL = "RL"
    TRIALS = "Trials"
    GRIDS = "Grids"
    EXPORTER = "The exporter about itself"


class Unit(StrEnum):
    """How a value is read by people; tables and dashboards format by it."""

    NONE = ""
    SECONDS = "seconds"
    TIMESTAMP = "timestamp"
    RATIO = "ratio"
    STEPS = "steps"
    TOKENS = "tokens"
    TOKENS_PER_SECOND = "tokens per second"
    COUNT = "count"
    BOOLEAN = "boolean"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family. `labels` are those added to `JOB_LABELS` (sections GRIDS and EXPORTER: all of its labels)."""

    name: str
    help: str
    section: Section
    unit: Unit = Unit.NONE
    labels: tuple[str, ...] = ()
    kind: str = "gauge"
