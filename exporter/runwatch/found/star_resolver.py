"""Resolving the `*` of templates for all found jobs of a look, with one listing of each level or project."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from runwatch.facts import Failure, FailureReason, SourceKind
from runwatch.found.jobs import Resolution
from runwatch.found.places import PlaceKind
from runwatch.found.templates import Candidate, StarPattern, belongs, choose, fitting, split_star, wants_times
from runwatch.sources.protocol import FindsRuns, FoundRun
from runwatch.sources.wildcards import MOST_CANDIDATES, LevelListings
from runwatch.telemetry import Telemetry

LOOK_AGAIN_SECONDS = 300.0
"""How often it is looked whether something newer came than what may be left of an earlier submission."""

_log = logging.getLogger(__name__)

_Runs = dict[str, FoundRun]
"""The runs of a project by their ids, in the order of these."""

_Rivals = dict[tuple[str, str], list[tuple[str, StarPattern]]]
"""All patterns and whose they are, by their parent and their prefix."""


@dataclass(frozen=True, slots=True)
class StarRequest:
    """One filled template of one found job.

    `job` tells the job from all others. `child` and `submission` are what a choice hangs on, `earlier` is what was
    chosen before. `claimed` are addresses that belong to other jobs. `since` is when the job was submitted, Unix
    seconds, None where that is not known; `goes_on` is whether anything of its own may still come.
    """

    job: str
    template: str
    kind: PlaceKind
    site: str
    child: str = ""
    submission: str = ""
    earlier: Resolution | None = None
    claimed: frozenset[str] = frozenset()
    since: float | None = None
    goes_on: bool = True

    @property
    def is_known(self) -> bool:
        """Whether the earlier choice was made for this submission and this child."""
        return self.earlier is not None and (self.earlier.submission, self.earlier.child) == (
            self.submission,
            self.child,
        )

    @property
    def is_settled(self) -> bool:
        """Whether the earlier choice stays: no other can be this submission's any more."""
        return self.is_known and not self.may_change

    @property
    def may_change(self) -> bool:
        """Whether the earlier choice may be left of an earlier submission, and one of this one may still come."""
        return self.earlier is not None and not self.earlier.is_sure and self.since is not None and self.goes_on


class StarResolver:
    """Lists what is there and chooses. What could not be listed leaves the earlier choice as it is.

    Args:
        telemetry: Where failures are counted.
        levels: Lists object stores and file systems.
    """

    def __init__(self, telemetry: Telemetry, levels: LevelListings) -> None:
        self._telemetry = telemetry
        self._levels = levels
        self._runs: dict[str, tuple[float, _Runs]] = {}
        self._looked: dict[tuple[str, str], float] = {}
        self._absent: set[tuple[str, str, str]] = set()
        self._told: set[tuple[str, str]] = set()
        self.unlisted: frozenset[tuple[str, str]] = frozenset()
        """The jobs and templates of which the newest look could list nothing, and nothing is known from before."""

    def resolve(
        self, requests: Sequence[StarRequest], runs: FindsRuns | None, now: float, interval: float
    ) -> tuple[dict[tuple[str, str], Resolution], tuple[Failure, ...]]:
        """Resolve every template that is not settled. What may still change is looked at again every few minutes.

        Args:
            requests: The templates of all found jobs: those that are settled too, for they claim what they mean.
            runs: Lists projects of W&B; None where there is no such source.
            now: Unix seconds.
            interval: Seconds that a listing of a project is used for.

        Returns:
            By job and template what is known, and what could not be listed.
        """
        self._levels.begin()
        look = _Look(self._telemetry, self._levels, self._runs, self._absent, runs, now, interval)
        patterns = [(request, pattern) for request in requests if (pattern := split_star(request.template)) is not None]
        rivals: _Rivals = {}
        for request, pattern in patterns:
            rivals.setdefault((pattern.parent, pattern.prefix), []).append((request.job, pattern))
        shared = _Shared(requests)
        resolved: dict[tuple[str, str], Resolution] = {}
        for request, pattern in sorted(patterns, key=lambda each: _submitted(each[0])):
            if request.is_settled or (request.is_known and not self._is_due(request, now)):
                found = request.earlier
            else:
                found = look.find(request, pattern, rivals, shared)
                self._looked[request.job, request.template] = now
            if found is not None:
                resolved[request.job, request.template] = found
                shared.take(request, found)
            self._tell(request, found)
        self.unlisted = frozenset(look.unlisted)
        present = {(request.job, request.template) for request in requests}
        self._absent &= {(request.job, request.template, request.submission) for request in requests}
        self._told &= present
        self._looked = {key: at for key, at in self._looked.items() if key in present}
        self._runs = {project: held for project, held in self._runs.items() if 0 <= now - held[0] < interval}
        return resolved, tuple(look.failures.values())

    def _is_due(self, request: StarRequest, now: float) -> bool:
        looked = self._looked.get((request.job, request.template))
        # All at the same time, so that they share a listing.
        return looked is None or looked // LOOK_AGAIN_SECONDS != now // LOOK_AGAIN_SECONDS

    def _tell(self, request: StarRequest, found: Resolution | None) -> None:
        key = (request.job, request.template)
        if found is None and key not in self._told:
            self._told.add(key)
            _log.info("%s: nothing fits %s yet", request.job, request.template)
        elif found is not None and (request.earlier is None or found.address != request.earlier.address):
            _log.info("%s: %s is %s", request.job, request.template, found.address)


class _Shared:
    """What tells jobs apart whose names, and so whose templates, are the same: two people's, say.

    Args:
        requests: Those of all jobs.
    """

    def __init__(self, requests: Sequence[StarRequest]) -> None:
        self._holders: dict[str, set[tuple[str, str]]] = {}
        self._submitted: dict[str, set[float]] = {}
        for request in requests:
            if request.since is not None:
                self._submitted.setdefault(request.template, set()).add(request.since)
            if request.earlier is not None and request.is_settled:
                self.take(request, request.earlier)

    def take(self, request: StarRequest, found: Resolution) -> None:
        """Note what a job that goes on surely has."""
        if found.is_sure and request.goes_on:
            self._holders.setdefault(found.address, set()).add((request.job, request.template))

    def is_anothers(self, request: StarRequest, address: str, made: float | None) -> bool:
        """Whether something is surely another job's: a run of W&B is of one alone, a folder of one of its name.

        A run that began after a later job of the same name was submitted is not the earlier one's.
        """
        for job, template in self._holders.get(address, ()):
            if job != request.job and (request.kind == "wandb" or template == request.template):
                return True
        since = request.since
        if made is None or since is None:
            return False
        return any(since < later <= made for later in self._submitted[request.template])


@dataclass(slots=True)
class _Look:
    telemetry: Telemetry
    levels: LevelListings
    held: dict[str, tuple[float, _Runs]]
    absent: set[tuple[str, str, str]]
    runs: FindsRuns | None
    now: float
    interval: float
    failures: dict[tuple[str, str], Failure] = field(default_factory=dict)
    unlisted: set[tuple[str, str]] = field(default_factory=set)

    def find(self, request: StarRequest, pattern: StarPattern, rivals: _Rivals, shared: _Shared) -> Resolution | None:
        """Return what a template means now, None where nothing fits or several that cannot be told apart."""
        failed = self.failures.get((request.kind, pattern.parent))
        listed = failed or self._candidates(request, pattern)
        if isinstance(listed, Failure):
            return self._failed(request, pattern, listed)
        # What was not there at an earlier look is new, whatever its time.
        key = (request.job, request.template, request.submission)
        since = None if key in self.absent else request.since
        (self.absent.discard if listed else self.absent.add)(key)
        own = [
            candidate
            for candidate in listed
            if pattern.address(candidate.name) not in request.claimed
            and not _means_another(request.job, candidate.name, pattern, rivals)
            and not shared.is_anothers(request, pattern.address(candidate.name), candidate.made)
        ]
        earlier = self._earlier(request, pattern)
        kept = "" if request.may_change else earlier
        dated = self._dated(request, pattern, own, kept, since)
        if isinstance(dated, Failure):
            return self._failed(request, pattern, dated)
        chosen = choose(dated, request.child, kept)
        if chosen is not None:
            is_sure = belongs(chosen, request.child, since)
            return Resolution(
                template=request.template,
                address=pattern.address(chosen.name),
                submission=request.submission,
                child=request.child,
                is_sure=is_sure or (chosen.name == earlier and request.earlier is not None and request.earlier.is_sure),
            )
        # What was found for this submission stays, though it is not there now.
        return request.earlier if earlier else None

    @staticmethod
    def _earlier(request: StarRequest, pattern: StarPattern) -> str:
        """Return the name that was chosen before for the same submission, "" where there is none."""
        if request.earlier is None or request.earlier.submission != request.submission:
            return ""
        return request.earlier.address.removeprefix(f"{pattern.parent}/").removesuffix(pattern.rest)

    def _failed(self, request: StarRequest, pattern: StarPattern, failure: Failure) -> Resolution | None:
        if (request.kind, pattern.parent) not in self.failures:
            self.failures[request.kind, pattern.parent] = failure
            kind = SourceKind.HISTORY if request.kind in ("wandb", "file") else SourceKind.CHECKPOINTS
            self.telemetry.count_error(kind, request.site, failure.reason)
            _log.warning("cannot find what %s means: %s: %s", request.template, failure.reason.value, failure.detail)
        if request.earlier is None:
            self.unlisted.add((request.job, request.template))
        return request.earlier

    def _candidates(self, request: StarRequest, pattern: StarPattern) -> list[Candidate] | Failure:
        if request.kind != "wandb":
            return self.levels.candidates(pattern, request.site, files=request.kind == "file")
        listed = self._project(pattern.parent, request.site)
        if isinstance(listed, Failure):
            # A project begins with its first run.
            return [] if listed.is_answer else listed
        return [
            Candidate(name, star, run.created, made=run.created, written=run.heartbeat)
            for name, star in fitting(list(listed), pattern)
            for run in [listed[name]]
        ]

    def _project(self, project: str, site: str) -> _Runs | Failure:
        held = self.held.get(project)
        if held is not None and 0 <= self.now - held[0] < self.interval:
            return held[1]
        if self.runs is None:
            return Failure(FailureReason.OTHER, f"{project}: there is no W&B source to list it with")
        listed = self.runs.discover(project, None, site=site)
        if not isinstance(listed, Failure) or listed.is_answer:
            runs = [] if isinstance(listed, Failure) else sorted(listed, key=lambda run: run.name)
            self.held[project] = (self.now, {run.name: run for run in runs})
        return listed if isinstance(listed, Failure) else self.held[project][1]

    def _dated(
        self,
        request: StarRequest,
        pattern: StarPattern,
        candidates: Sequence[Candidate],
        earlier: str,
        since: float | None,
    ) -> Sequence[Candidate] | Failure:
        wanted = wants_times(candidates, request.child, earlier, since)
        if request.kind == "wandb" or not wanted:
            return candidates
        if len(wanted) > MOST_CANDIDATES:
            text = f"{request.template} fits more than {MOST_CANDIDATES} names: make it more exact"
            return Failure(FailureReason.OTHER, text)
        known: dict[str, Candidate] = {}
        for candidate in wanted:
            dated = self.levels.dated(pattern, candidate, request.site)
            if isinstance(dated, Failure):
                return dated
            known[candidate.name] = dated
        return [known.get(candidate.name, candidate) for candidate in candidates]


def _submitted(request: StarRequest) -> float:
    """Order the older job before the newer: what it surely has is not the newer's."""
    return math.inf if request.since is None else request.since


def _means_another(job: str, name: str, pattern: StarPattern, rivals: _Rivals) -> bool:
    """Whether a more exact template of another job fits: `{name}-*` of `a` also fits the run of a job named `a-b`."""
    prefixes = (name[:length] for length in range(len(name) + 1))
    return any(
        other != job and rival.exactness > pattern.exactness and rival.star_of(name) is not None
        for prefix in prefixes
        for other, rival in rivals.get((pattern.parent, prefix), ())
    )
