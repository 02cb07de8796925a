"""Log files behind a site's command prefix, such as `ssh login01`: `ls`, `stat` and `dd` with argument lists.

A prefix such as ssh hands the words to a shell on the other side, so only words of harmless characters are passed.
Globs are matched here, folder by folder: nothing is expanded over there, and no tree is searched.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Sequence

from runwatch.facts import Failure, FailureReason
from runwatch.sources.bounded_command import CommandOutput, run_command
from runwatch.sources.log_files import MAX_FILES, LogFile, has_wildcards, in_order

_HARMLESS = re.compile(r"[A-Za-z0-9_.,:@%+=/-]+\Z")
_STAT_FORMAT = "%d:%i:%s:%Y:%f:%n"
_STAT_LINE = re.compile(r"(\d+):(\d+):(\d+):(-?\d+):([0-9a-f]+):(.+)\Z")
_FILE_KIND, _REGULAR = 0o170000, 0o100000
_LISTING_BYTES = 8 * 1024 * 1024
_PATHS_A_CALL = 100
_MAX_FOLDERS = 50
_REFUSED = ("permission denied", "access denied", "host key verification failed", "authentication")
_CONNECTION_FAILED = 255  # what ssh ends with when it is not the command that failed


class RemoteLogFiles:
    """Files that are reached through a command prefix.

    Args:
        prefix: program and arguments that stand before each command.
        count_request: is called for each command that is run.
    """

    def __init__(self, prefix: Sequence[str], count_request: Callable[[], None]) -> None:
        self._prefix = tuple(prefix)
        self._count_request = count_request

    def find(self, pattern: str, deadline: float) -> Sequence[LogFile] | Failure:
        """See `LogFiles.find`."""
        if not pattern.startswith("/"):
            return Failure(FailureReason.OTHER, f"{pattern}: expected an absolute path")
        paths = self._expand(pattern, deadline) if has_wildcards(pattern) else [pattern]
        if isinstance(paths, Failure):
            return paths
        if not paths:
            return Failure(FailureReason.NOT_FOUND, f"no file matches {pattern}")
        refused = next((path for path in paths if _HARMLESS.match(path) is None), None)
        if refused is not None:
            return Failure(FailureReason.OTHER, f"{refused!r} holds characters that are not passed to a remote shell")
        found: list[LogFile] = []
        for start in range(0, len(paths), _PATHS_A_CALL):
            looked = self._stat(paths[start : start + _PATHS_A_CALL], deadline)
            if isinstance(looked, Failure):
                return looked
            found += looked
        if not found:
            return Failure(FailureReason.NOT_FOUND, f"{pattern} does not exist")
        return in_order(found)

    def read(self, file: LogFile, offset: int, length: int, deadline: float) -> bytes | Failure:
        """See `LogFiles.read`."""
        answer = self._run(
            [
                "dd",
                f"if={file.path}",
                "bs=65536",
                "iflag=skip_bytes,count_bytes,fullblock",
                f"skip={offset}",
                f"count={length}",
                "status=none",
            ],
            deadline,
            length,
        )
        if isinstance(answer, Failure):
            return answer
        if answer.returncode != 0:
            return _failure("dd", answer)
        return answer.output

    def _run(self, arguments: Sequence[str], deadline: float, max_bytes: int) -> CommandOutput | Failure:
        self._count_request()
        return run_command([*self._prefix, *arguments], deadline, max_bytes)

    def _stat(self, paths: Sequence[str], deadline: float) -> list[LogFile] | Failure:
        answer = self._run(["stat", "-L", "-c", _STAT_FORMAT, "--", *paths], deadline, _LISTING_BYTES)
        if isinstance(answer, Failure):
            return answer
        found = []
        for line in answer.output.decode("utf-8", "replace").splitlines():
            parts = _STAT_LINE.match(line)
            if parts is None:
                return Failure(FailureReason.PARSE, f"stat printed {line[:80]!r}")
            if int(parts[5], 16) & _FILE_KIND == _REGULAR:
                identity = (int(parts[1]), int(parts[2]))
                found.append(LogFile(parts[6], identity, int(parts[3]), float(parts[4])))
        if not found and answer.returncode != 0:
            return _failure("stat", answer)
        return found

    def _expand(self, pattern: str, deadline: float) -> list[str] | Failure:
        folders = [""]
        for part in pattern.strip("/").split("/"):
            if not has_wildcards(part):
                folders = [f"{folder}/{part}" for folder in folders]
                continue
            if len(folders) > _MAX_FOLDERS:
                return Failure(FailureReason.OTHER, f"{pattern} matches more than {_MAX_FOLDERS} folders")
            matched: list[str] = []
            for folder in folders:
                names = self._list(folder or "/", deadline)
                if isinstance(names, Failure):
                    return names
                hidden = part.startswith(".")
                matched += [
                    f"{folder}/{name}"
                    for name in names
                    if fnmatch.fnmatchcase(name, part) and (hidden or not name.startswith("."))
                ]
            folders = matched
        # The newest are sorted out after their times are known; names alone bound what is asked.
        return folders[-5 * MAX_FILES :]

    def _list(self, folder: str, deadline: float) -> list[str] | Failure:
        if _HARMLESS.match(folder) is None:
            return Failure(FailureReason.OTHER, f"{folder!r} holds characters that are not passed to a remote shell")
        answer = self._run(["ls", "-1", "-A", "--", folder], deadline, _LISTING_BYTES)
        if isinstance(answer, Failure):
            return answer
        if answer.returncode != 0:
            return _failure("ls", answer)
        return answer.output.decode("utf-8", "replace").splitlines()


def _failure(program: str, answer: CommandOutput) -> Failure:
    said = next((line.strip() for line in answer.errors.splitlines() if line.strip()), "")
    text = "".join(character for character in said if character.isprintable())[:200]
    detail = f"{program}: {text or f'exit code {answer.returncode}'}"
    lowered = answer.errors.lower()
    if answer.returncode == _CONNECTION_FAILED:
        refused = any(word in lowered for word in _REFUSED)
        return Failure(FailureReason.AUTH if refused else FailureReason.NETWORK, detail)
    if "no such file" in lowered or "not a directory" in lowered:
        return Failure(FailureReason.NOT_FOUND, detail)
    if any(word in lowered for word in _REFUSED):
        return Failure(FailureReason.AUTH, detail)
    return Failure(FailureReason.OTHER, detail)
