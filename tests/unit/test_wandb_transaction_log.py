"""The framing of `.wandb` files, against an encoder written from the format's description."""

from __future__ import annotations

import random
import struct
import zlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from runwatch.parsing.wandb_transaction_log import BLOCK_BYTES, NotTransactionLogError, read_records

HEADER = b":W&B\xe1\xbe\x00"


def encode(records: list[bytes]) -> bytes:
    """Write records as the client does, one chunk after the other, byte offsets counted by hand."""
    file = bytearray(HEADER)
    for record in records:
        rest, first = record, True
        while True:
            room = 32768 - len(file) % 32768
            if room < 7:
                file += bytes(room)
                room = 32768
            part, rest = rest[: room - 7], rest[room - 7 :]
            kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[first, not rest]
            checksum = zlib.crc32(part, zlib.crc32(bytes([kind])))
            file += struct.pack("<IHB", checksum, len(part), kind) + part
            first = False
            if not rest:
                break
    return bytes(file)


def read_in_pieces(file: bytes, cuts: list[int]) -> tuple[list[bytes], int]:
    """Read a growing file: at each cut, everything from the last position to there."""
    records: list[bytes] = []
    position = corrupt = 0
    for cut in [*sorted(cuts), len(file)]:
        if cut < position:
            continue
        extract = read_records(file[position:cut], position)
        assert position <= extract.position <= cut
        records += extract.records
        corrupt += extract.corrupt
        position = extract.position
    return records, corrupt


SIZES = st.integers(0, 50) | st.integers(BLOCK_BYTES - 40, BLOCK_BYTES + 20) | st.integers(0, 3 * BLOCK_BYTES)
RECORDS = st.lists(SIZES, max_size=12).map(
    lambda sizes: [random.Random(i).randbytes(size) for i, size in enumerate(sizes)]
)


@settings(deadline=None)
@given(RECORDS, st.lists(st.integers(0, 12 * 3 * BLOCK_BYTES), max_size=8))
@example([b"x" * (BLOCK_BYTES - 7 - 7 - 7), b"", b"y"], [BLOCK_BYTES - 7, BLOCK_BYTES])  # exactly a header's room left
def test_records_come_back_however_the_file_grows(records: list[bytes], cuts: list[int]) -> None:
    file = encode(records)
    assert read_in_pieces(file, [min(cut, len(file)) for cut in cuts]) == (records, 0)


def test_truncation_at_every_byte_gives_the_complete_records() -> None:
    records = [b"a" * 30, b"", b"b" * 200, b"c"]
    file = encode(records)
    ends = [len(encode(records[: count + 1])) for count in range(len(records))]
    for length in range(len(file) + 1):
        extract = read_records(file[:length], 0)
        assert extract.records == [r for r, end in zip(records, ends, strict=True) if end <= length]
        assert (extract.corrupt, extract.suspect) == (0, False)
        rest = read_records(file[extract.position :], extract.position)
        assert extract.records + rest.records == records


def test_truncation_around_block_borders() -> None:
    records = [b"a" * (BLOCK_BYTES - 20), b"b" * (2 * BLOCK_BYTES), b"c" * 10]
    file = encode(records)
    for border in range(BLOCK_BYTES, len(file), BLOCK_BYTES):
        for length in range(border - 20, border + 20):
            assert read_in_pieces(file, [length]) == (records, 0)


def numbered(count: int) -> list[bytes]:
    return [f"{i:05d}".encode() * 100 for i in range(count)]  # 507 bytes framed: some lie across blocks


NUMBERED = numbered(200)
ENCODED = encode(NUMBERED)
RECORD_ENDS = [len(encode(NUMBERED[: count + 1])) for count in range(len(NUMBERED))]


@settings(deadline=None)
@given(st.data())
def test_one_broken_byte_costs_the_rest_of_its_block(data: st.DataObject) -> None:
    records = NUMBERED
    file = bytearray(ENCODED)
    at = data.draw(st.integers(len(HEADER), 3 * BLOCK_BYTES - 1))
    file[at] ^= data.draw(st.integers(1, 255))
    got, corrupt = read_in_pieces(bytes(file), [data.draw(st.integers(0, len(file)))])
    assert set(got) <= set(records)
    block = at // BLOCK_BYTES
    starts = [len(HEADER), *RECORD_ENDS]
    untouched = [
        record
        for record, start, end in zip(records, starts, RECORD_ENDS, strict=False)
        if block not in range(start // BLOCK_BYTES, (end - 1) // BLOCK_BYTES + 1)
    ]
    assert [r for r in got if r in set(untouched)] == untouched
    padding = BLOCK_BYTES - at % BLOCK_BYTES < 7
    assert corrupt == 1 or (padding and got == records)


def test_broken_bytes_in_the_newest_block_are_waited_for() -> None:
    records = numbered(100)
    file = bytearray(encode(records))
    whole = bytes(file)
    file[600:700] = bytes(100)  # a page that another host has not seen written yet
    early = read_records(bytes(file[:20_000]), 0)
    assert (early.records, early.corrupt, early.suspect) == (records[:1], 0, True)
    later = read_records(whole[early.position :], early.position)
    assert early.records + later.records == records
    assert (later.corrupt, later.suspect) == (0, False)


def test_a_record_broken_off_by_another_is_counted() -> None:
    long, short = b"l" * BLOCK_BYTES, b"s" * 5
    broken_off = encode([long])[:BLOCK_BYTES]  # its first part alone
    chunk = encode([short])[len(HEADER) :]
    extract = read_records(broken_off + chunk, 0)
    assert (extract.records, extract.corrupt) == ([short], 1)


@pytest.mark.parametrize("data", [b"\x00" * 7, b":W&B\xe1\xbe\x01", b":X", b"{}"])
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(NotTransactionLogError, match=":W&B"):
        read_records(data, 0)


@given(st.binary(max_size=200))
def test_any_bytes_behind_the_header_are_bearable(data: bytes) -> None:
    extract = read_records(HEADER + data, 0)
    assert 7 <= extract.position <= 7 + len(data)
