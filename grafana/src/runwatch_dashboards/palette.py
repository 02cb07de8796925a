"""Colours, words for values, and threshold steps, once for all panels.

Colours are Grafana's own names, which have a dark and a light form. A cell or a stat is coloured only where something
is to be said: what is well, and what is not measured, has no colour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import dashboard as models

from runwatch import thresholds
from runwatch.catalogue import ENDED_STATES
from runwatch.figures import MISSING

BAD = "red"
WARNING = "orange"
GOOD = "green"
NEUTRAL = "blue"
GREY = "#808080"
SECOND = "purple"
"""Of a second line beside a blue one; it says nothing of good or bad."""
PLAIN = "transparent"
"""No colour: the text of the theme on no background. As the colour of a text itself it makes that invisible."""
TEXT = "text"
"""The theme's colour of text, for values that have no background: a stat's."""

_FIRST_WARNING = thresholds.VERDICTS.index("grad_explosion")
_FIRST_NEUTRAL = thresholds.VERDICTS.index("queued")
_OVER = frozenset({"completed", "killed"})
_STATE_COLOURS = {"failed": BAD, "vanished": BAD, "timeout": WARNING, "preempted": WARNING, "unknown": WARNING}


def verdict_colour(word: str) -> str:
    """Return the colour of a verdict: red for what pages, orange for what warns, grey for an end, else none.

    Raises:
        ValueError: not a word of `thresholds.VERDICTS`.
    """
    place = thresholds.VERDICTS.index(word)
    if word in _OVER:
        return GREY
    if place < _FIRST_WARNING:
        return BAD
    return WARNING if place < _FIRST_NEUTRAL else PLAIN


def state_colour(state: str) -> str:
    """Return the colour of a job's state; grey for an end that is no fault."""
    return _STATE_COLOURS.get(state, GREY if state in ENDED_STATES else PLAIN)


def missing(colour: str = PLAIN) -> models.ValueMapping:
    """Return the mapping of what is not measured: a dash that has no colour, in a stat that of text.

    Without it Grafana draws a missing value in the colour of the lowest step.
    """
    result = models.ValueMappingResult(text=MISSING, color=colour, index=0)
    options = models.DashboardSpecialValueMapOptions(match=models.SpecialValueMatch.NULL_AND_NAN, result=result)
    return models.SpecialValueMap(options)


def empty_text() -> models.ValueMapping:
    """Return the mapping of a label without a value to a dash."""
    result = models.ValueMappingResult(text=MISSING, color=PLAIN, index=1)
    options = models.DashboardSpecialValueMapOptions(match=models.SpecialValueMatch.EMPTY, result=result)
    return models.SpecialValueMap(options)


def words(texts: Mapping[str, tuple[str, str]]) -> models.ValueMapping:
    """Return the mapping of values (as Grafana writes them, `0`) to (text, colour)."""
    return models.ValueMap(
        {
            value: models.ValueMappingResult(text=text, color=colour, index=place)
            for place, (value, (text, colour)) in enumerate(texts.items(), start=2)
        }
    )


def codes(values: Sequence[str], colours: Mapping[str, str]) -> models.ValueMapping:
    """Return the mapping of places in a list of words to those words. See `queries.code`."""
    return words({str(place): (word, colours.get(word, PLAIN)) for place, word in enumerate(values)})


def steps(*above: tuple[float, str], base: str = PLAIN) -> builders.ThresholdsConfig:
    """Return threshold steps: `base` below all, then each colour from its value upward, in rising order."""
    rows = [models.Threshold(value=None, color=base)]
    rows += [models.Threshold(value=value, color=colour) for value, colour in above]
    return builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(rows)
