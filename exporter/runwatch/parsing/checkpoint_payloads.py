"""What contradicts a commit marker: data that it promises and that is not there, as far as names and sizes show it.

A marker is written last, yet data may be lost before and after it: a full disk leaves empty files, a rank's upload may
fail, a clean-up may delete weights and keep the small files, and a save that goes on in the background outlives its
marker. None of the data is read. Where nothing at all of it is there, that is no contradiction: what a layout writes
differs between versions.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

RANK_FOLDERS = frozenset({"critic", "policy"})
"""The folders of a SkyRL checkpoint in which each rank writes its own part."""

_DATA = (".safetensors", ".bin", ".pt", ".pth", ".distcp")
_SHARD = re.compile(r"(?P<kind>.+)-(?P<number>[0-9]{5})-of-(?P<total>[0-9]{5})\.(?:safetensors|bin)")
_RANK = re.compile(r"(?P<kind>.+)_world_size_(?P<total>[0-9]{1,6})_rank_(?P<number>[0-9]{1,6})\.pt")
_INDEX_SUFFIX = ".index.json"
_DISTRIBUTED_SUFFIX = ".distcp"
_DISTRIBUTED_INDEX = ".metadata"
_CONFIGURATIONS = ("adapter_config.json", "config.json")
_MAY_HOLD_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".h5", ".msgpack", ".distcp")
_HOLDS_OTHER_STATE = re.compile(
    r"(?:training_args|optimizer|scheduler|scaler|rng_state.*|random_states.*)\.(?:bin|pth?)"
)


def holds_data(sizes: Mapping[str, int | None]) -> bool:
    """Tell whether any file of weights or state holds something. Where none does, names alone are kept of a copy."""
    return any(size != 0 for name, size in sizes.items() if name.endswith(_DATA))


def lacking_payload(
    sizes: Mapping[str, int | None], folders: Collection[str] = (), *, data_is_there: bool = True
) -> str:
    """Say which data of a folder is empty or missing, "" where nothing shows that any is.

    - a file of JSON without a byte, and beside others that hold something one of weights or of a trainer's state;
    - `model-00001-of-00004.safetensors` without all four, or an index of shards of which none is there;
    - `optim_world_size_8_rank_0.pt` without all eight (SkyRL with FSDP);
    - a model's or an adapter's configuration without any weights (sharded ones may lie in folders);
    - `__0_0.distcp` without the `.metadata` that torch writes once all parts are saved (SkyRL with Megatron).

    Args:
        sizes: the objects directly in the folder with their bytes, None where that is not known.
        folders: the folders in it.
        data_is_there: whether any file of the checkpoint `holds_data`.
    """
    return (
        empty_object(sizes, data_is_there=data_is_there)
        or _lacking_part(sizes, _SHARD, first=1)
        or _lacking_part(sizes, _RANK, first=0)
        or _index_without_shards(sizes)
        or ("" if folders else _configuration_without_weights(sizes))
        or _parts_without_index(sizes)
    )


def empty_object(sizes: Mapping[str, int | None], *, data_is_there: bool) -> str:
    """Say which object is empty that never is when it was written whole, "" where none is."""
    kinds = (".json", *_DATA) if data_is_there else (".json",)
    empty = min((name for name, size in sizes.items() if size == 0 and name.endswith(kinds)), default=None)
    return f"{empty} is empty" if empty is not None else ""


def _lacking_part(names: Iterable[str], pattern: re.Pattern[str], *, first: int) -> str:
    """Say which part is missing. Of one thing that was saved in two divisions one whole set of parts is enough."""
    there = frozenset(names)
    divisions: dict[str, dict[int, set[int]]] = {}
    for name in there:
        if matched := pattern.fullmatch(name):
            numbers = divisions.setdefault(matched["kind"], {}).setdefault(int(matched["total"]), set())
            numbers.add(int(matched["number"]))
    for kind, by_total in sorted(divisions.items()):
        if there.intersection({f"{kind}.safetensors", f"{kind}.bin"}):  # saved in one piece since
            continue
        missing = {total: set(range(first, first + total)) - numbers for total, numbers in by_total.items()}
        if all(missing.values()):
            total = max(missing)
            return f"of the {total} parts of {kind} number {min(missing[total])} is missing"
    return ""


def _index_without_shards(names: Iterable[str]) -> str:
    there = set(names)
    for index in sorted(name for name in there if name.endswith(_INDEX_SUFFIX)):
        whole = index.removesuffix(_INDEX_SUFFIX)
        kind = whole.rpartition(".")[0]
        shards = (matched["kind"] for name in there if (matched := _SHARD.fullmatch(name)))
        if kind and whole not in there and kind not in shards:
            return f"{index} is there and no shard that it names"
    return ""


def _configuration_without_weights(names: Iterable[str]) -> str:
    there = set(names)
    described = next((name for name in _CONFIGURATIONS if name in there), None)
    if described is None or any(_may_hold_weights(name) for name in there):
        return ""
    return f"{described} is there and no weights"


def _may_hold_weights(name: str) -> bool:
    return name.endswith(_MAY_HOLD_WEIGHTS) and _HOLDS_OTHER_STATE.fullmatch(name) is None


def _parts_without_index(names: Iterable[str]) -> str:
    there = set(names)
    if _DISTRIBUTED_INDEX in there or not any(name.endswith(_DISTRIBUTED_SUFFIX) for name in there):
        return ""
    return f"it holds *{_DISTRIBUTED_SUFFIX} without {_DISTRIBUTED_INDEX}: its ranks still save, or one failed"
