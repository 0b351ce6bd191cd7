"""Finds the files of an audit and reads their text, within limits."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from firstfault.errors import InputError, LimitError, UsageError
from firstfault.model.audit import ReadProblem

__all__ = ["MAX_FILE_BYTES", "STDIN", "display_path", "find_files", "read_text"]

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_FILES = 200_000
STDIN = "-"
_SUFFIXES = (".yaml", ".yml", ".json", ".tf", ".tfvars", ".rules")
_SKIPPED_FOLDERS = frozenset(
    {".git", ".terraform", "node_modules", ".venv", "venv", "__pycache__", ".terragrunt-cache"}
)
_BUILD_LINKS = ("bazel-",)  # what a build system links into a checkout
_LEADS_OUT = "a link that leads out of the folder is not followed; name its target too, or exclude the link"


def find_files(paths: list[Path], problems: list[ReadProblem] | None = None) -> Iterator[Path]:
    """Yield the files to read, each once, folders in sorted order.

    Links to folders are not followed (what they lead to within the folder is read where it is), and links to files not
    out of the folder. Files named by the caller are read whatever their suffix.

    Args:
        paths: What the caller named.
        problems: Takes what lies in the folders and is not read: folders that are closed to us, links that lead out.

    Raises:
        UsageError: None of the paths exists. One that is missing among others is yielded: reading it says so.
        LimitError: A folder holds too many files.
    """
    seen: set[Path] = set()
    problems = [] if problems is None else problems
    if paths and not any(str(path) == STDIN or path.exists() for path in paths):
        raise UsageError(f"{', '.join(map(str, paths))}: no such file or folder")
    for path in paths:
        if str(path) == STDIN:
            yield path
        elif path.is_dir():
            for file in _walk(path, problems, paths):
                if file not in seen and _leaves(file, path):
                    problems.extend(_not_followed(file, paths))
                elif file not in seen:
                    seen.add(file)
                    yield file
                if len(seen) > MAX_FILES:
                    raise LimitError(f"{path}: more than {MAX_FILES:,} files", "audit its parts one by one")
        elif path not in seen:
            seen.add(path)
            yield path


def _walk(folder: Path, problems: list[ReadProblem], named: list[Path]) -> Iterator[Path]:
    def closed(error: OSError) -> None:
        problems.append(_skipped(Path(error.filename), f"the folder cannot be read: {error.strerror}"))

    for base, folders, files in os.walk(folder, onerror=closed):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED_FOLDERS)
        for linked in (Path(base, name) for name in folders if not name.startswith(_BUILD_LINKS)):
            problems.extend(_not_followed(linked, named) if _leaves(linked, folder) else [])
        for name in sorted(files):
            if name.endswith(_SUFFIXES):
                yield Path(base, name)


def _skipped(path: Path, why: str) -> ReadProblem:
    shown = display_path(path)
    return ReadProblem(path=shown, line=1, message=f"{shown}: {why}")


def _not_followed(link: Path, named: list[Path]) -> list[ReadProblem]:
    """Tell of a link that leads out of its folder, unless what it leads to is among what the caller named."""
    target = link.resolve()
    there = any(target.is_relative_to(path.resolve()) for path in named if str(path) != STDIN)
    return [] if there else [_skipped(link, _LEADS_OUT)]


def _leaves(file: Path, folder: Path) -> bool:
    """Tell whether a link leads out of the folder: a foreign checkout must not choose which files we read."""
    if not file.is_symlink():
        return False
    try:
        return not file.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):
        return False  # a loop: reading it says so


def read_text(path: Path) -> str:
    """Return the text of a file, or of standard input for "-".

    Raises:
        LimitError: It is larger than `MAX_FILE_BYTES`.
        InputError: It cannot be opened, or it is not UTF-8 text.
    """
    try:
        if str(path) == STDIN:
            if sys.stdin is None:
                raise InputError("standard input is not available here", "name a file instead of -")
            data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
            if not data.strip():
                raise InputError("stdin: empty", "did the program before the pipe fail?")
        else:
            if not path.exists():
                raise InputError(f"{path}: no such file or folder")
            if not path.is_file():
                raise InputError(f"{path}: not a regular file")
            with path.open("rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise LimitError(f"{path}: larger than {MAX_FILE_BYTES // 2**20} MiB", "split it, or leave it out")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"{path}:{line}: not UTF-8 text (byte {error.start})") from error


def display_path(path: Path) -> str:
    """Return how a path is written in reports: relative to the working directory where it lies below it."""
    if str(path) == STDIN:
        return "stdin"
    try:
        absolute = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow links that the user wrote
        return absolute.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return absolute.as_posix()
    except FileNotFoundError:  # the working directory was deleted
        return path.as_posix()
