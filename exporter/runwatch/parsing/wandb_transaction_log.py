"""The framing of the W&B client's `.wandb` files: which bytes are which record.

The format is LevelDB's log (https://github.com/google/leveldb/blob/main/doc/log_format.md) with two differences,
both seen in files that wandb 0.31.0 wrote: the file begins with a header of 7 bytes, which counts as part of the
first block, and the checksum is the plain CRC-32 of the type byte and the data, not masked CRC-32C.

    file    = header block*        header = ":W&B", 0xBEE1 (u16, little endian), version 0 (u8)
    block   = 32768 bytes: chunks, then fewer than 7 bytes of padding
    chunk   = CRC-32 (u32), length (u16), type (u8), data; little endian
    type    = 1 full record, 2 first part, 3 middle part, 4 last part
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

BLOCK_BYTES = 32768
FILE_HEADER = b":W&B\xe1\xbe\x00"

_CHUNK_HEADER = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


class NotTransactionLogError(ValueError):
    """The file does not begin as a `.wandb` file of version 0 does."""


@dataclass(frozen=True, slots=True)
class LogExtract:
    """The records found in a part of a file.

    Attributes:
        records: The complete records, in order.
        position: The file's offset to read on from: the start of the first record that is not complete yet.
        corrupt: How many broken places were skipped.
        suspect: The bytes at `position` are broken, but the writer is still within that block: they may have been
            seen half written, so they are judged only when the next block has begun.
    """

    records: list[bytes]
    position: int
    corrupt: int = 0
    suspect: bool = False


def read_records(data: bytes, position: int) -> LogExtract:
    """Find the complete records in a part of a transaction log.

    An end in the middle of a record is normal while the writer lives: what is incomplete is left for a later call.
    At a broken chunk the rest of its block is skipped, and the record that it belonged to is dropped.

    Args:
        data: The file's bytes from `position` on.
        position: An offset that an earlier call returned, or 0.

    Raises:
        NotTransactionLogError: `position` is 0 and the data does not begin with the file's header.
    """
    start = position
    if position == 0:
        if data[: len(FILE_HEADER)] != FILE_HEADER[: len(data)]:
            raise NotTransactionLogError('not a .wandb file of version 0: it does not begin with ":W&B"')
        if len(data) < len(FILE_HEADER):
            return LogExtract([], 0)
        position = len(FILE_HEADER)

    end = start + len(data)
    records: list[bytes] = []
    parts: list[bytes] = []
    corrupt = 0
    resume_at = position  # behind the last record that is settled, complete or given up
    while True:
        block_end = (position // BLOCK_BYTES + 1) * BLOCK_BYTES
        if block_end - position < _CHUNK_HEADER.size:
            position = block_end
            if not parts:
                resume_at = min(position, end)
        if end - position < _CHUNK_HEADER.size:
            return LogExtract(records, resume_at, corrupt)
        block_end = (position // BLOCK_BYTES + 1) * BLOCK_BYTES
        at = position - start
        checksum, length, kind = _CHUNK_HEADER.unpack_from(data, at)
        chunk_end = position + _CHUNK_HEADER.size + length
        if chunk_end <= block_end and chunk_end > end and _FULL <= kind <= _LAST:
            return LogExtract(records, resume_at, corrupt)
        # The checksum covers the type, the header's last byte, and the data.
        body = data[at + _CHUNK_HEADER.size - 1 : chunk_end - start]
        if chunk_end > block_end or not _FULL <= kind <= _LAST or zlib.crc32(body) != checksum:
            if end <= block_end:
                return LogExtract(records, resume_at, corrupt, suspect=True)
            corrupt += 1
            parts.clear()
            position = resume_at = block_end
            continue
        position = chunk_end
        if kind in (_FULL, _FIRST):
            if parts:
                corrupt += 1  # the record before was never ended
                parts.clear()
                resume_at = at + start
            parts.append(body[1:])
        elif parts:
            parts.append(body[1:])
        # Else a middle or last part without its beginning, which was skipped and counted already.
        if kind in (_FULL, _LAST):
            if parts:
                records.append(b"".join(parts))
                parts.clear()
            resume_at = position
        elif not parts:
            resume_at = position
