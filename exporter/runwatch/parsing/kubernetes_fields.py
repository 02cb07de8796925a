"""Typed reads from the JSON of Kubernetes objects: what is missing, null or of another type is absent, never an error.

The API leaves out fields that hold their zero value, so an absent count may be 0; the caller knows which.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

Json = Mapping[str, object]
"""An object of the API. Those that `json` makes are told by their exact type: thousands are read at each look."""

_NOTHING: Json = {}


def mapping(value: object, *path: str) -> Json:
    """Return the object at the path, empty where there is none."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else _NOTHING


def items(value: object, *path: str) -> tuple[Json, ...]:
    """Return the objects of the list at the path; elements that are no objects are left out."""
    found = mapping(value, *path[:-1]).get(path[-1]) if path else value
    return tuple(item for item in found if isinstance(item, dict)) if isinstance(found, list) else ()


def text(value: object, *path: str) -> str:
    """Return the text at the path, empty where there is none."""
    found = mapping(value, *path[:-1]).get(path[-1])
    return found if isinstance(found, str) else ""


def count(value: object, *path: str) -> int | None:
    """Return the whole number at the path; true and false are none."""
    found = mapping(value, *path[:-1]).get(path[-1])
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def switched_on(value: object, *path: str) -> bool:
    """Whether the value at the path is true."""
    return mapping(value, *path[:-1]).get(path[-1]) is True


def moment(value: object, *path: str) -> float | None:
    """Return the RFC 3339 time at the path in Unix seconds; Go's zero time is none."""
    written = text(value, *path)
    if not written:
        return None
    try:
        read = datetime.fromisoformat(written)
    except ValueError:
        return None
    seconds = (read if read.tzinfo is not None else read.replace(tzinfo=UTC)).timestamp()
    return seconds if seconds > 0 else None


def condition(record: object, kind: str) -> Json:
    """Return the condition of this type from the record's status, empty where there is none."""
    return next((found for found in items(record, "status", "conditions") if text(found, "type") == kind), {})


def true_condition(record: object, kind: str) -> Json:
    """The same, empty where the condition does not hold."""
    found = condition(record, kind)
    return found if text(found, "status") == "True" else {}


def uid(record: object) -> str:
    """Return the id that the API gave the object; it is never used again."""
    return text(record, "metadata", "uid")


def name(record: object) -> str:
    """Return the object's name."""
    return text(record, "metadata", "name")


def label(record: object, *keys: str) -> str:
    """Return the first of these labels that the object has."""
    return next((found for key in keys if (found := text(record, "metadata", "labels", key))), "")


def created(record: object) -> float | None:
    """Return when the object was made, Unix seconds."""
    return moment(record, "metadata", "creationTimestamp")


def deletion_requested(record: object) -> float | None:
    """Return when somebody asked to delete the object, Unix seconds.

    `deletionTimestamp` is when the object may be removed: the request's time plus the grace period.
    """
    due = moment(record, "metadata", "deletionTimestamp")
    return None if due is None else due - (count(record, "metadata", "deletionGracePeriodSeconds") or 0)


def controller(record: object) -> Json:
    """Return the owner that controls the object, empty where there is none."""
    owners = items(record, "metadata", "ownerReferences")
    return next((owner for owner in owners if owner.get("controller") is True), {})


def owner_uids(record: object) -> Iterator[str]:
    """Yield the ids of all owners."""
    return (text(owner, "uid") for owner in items(record, "metadata", "ownerReferences"))


def one_line(*parts: str, limit: int = 200) -> str:
    """Join what is not empty by `: `, as one line of printable text of bounded length."""
    joined = ": ".join(" ".join(part.split()) for part in parts if part.strip())
    printable = "".join(character if character.isprintable() else "?" for character in joined)
    return printable if len(printable) <= limit else printable[: limit - 1] + "…"
