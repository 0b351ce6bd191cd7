"""Writes a rendered tree, knows on the next run what it wrote, and never overwrites what a person changed.

Beside the files stands `firstfault-guard.json`: the digest of each file as it was written. On the next run a file whose
bytes still have that digest is ours to update or to remove; any other is somebody's edit.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING, Literal

import msgspec

from firstfault.errors import InputError, UsageError
from firstfault.model.files import refuse_special, replace_file

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["MANIFEST", "Change", "OnEdit", "apply_tree", "plan_tree"]

MANIFEST = "firstfault-guard.json"
OnEdit = Literal["refuse", "keep", "overwrite"]
Action = Literal["add", "update", "unchanged", "remove", "edited", "kept"]


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one file.

    Attributes:
        path: Relative to the tree.
        action: add · update · unchanged · remove (no longer rendered) · edited (somebody changed it; it stands in the
            way) · kept (no longer rendered, but somebody changed it).
    """

    path: str
    action: Action


class _Manifest(msgspec.Struct, frozen=True, kw_only=True):
    schema: str
    files: dict[str, str]


def plan_tree(out: Path, files: dict[str, str]) -> list[Change]:
    """Return what writing `files` into `out` would do, sorted by path; nothing is written.

    Raises:
        InputError: `out` is not a folder, its manifest cannot be read, or a path leads out of it through a link.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is not a folder", "give a new or an existing folder with --out")
    written = _read_manifest(out)
    changes = []
    for path, text in files.items():
        digest, old = _digest(text.encode()), _digest_of(out, path)
        if old is None:
            action: Action = "add"
        elif old == digest:
            action = "unchanged"
        else:
            action = "update" if old == written.get(path) else "edited"
        changes.append(Change(path=path, action=action))
    for path, digest in written.items():
        old = _digest_of(out, path)
        if path not in files and old is not None:
            changes.append(Change(path=path, action="remove" if old == digest else "kept"))
    return sorted(changes, key=lambda change: change.path)


def apply_tree(out: Path, files: dict[str, str], on_edit: OnEdit = "refuse") -> list[Change]:
    """Write `files` into `out` and return what was done.

    Args:
        out: The tree; made when it does not exist.
        files: Text by path.
        on_edit: What to do with files that somebody changed: refuse (write nothing at all), keep or overwrite them.

    Raises:
        UsageError: Somebody changed files that would be overwritten, and `on_edit` is "refuse".
        InputError: As `plan_tree`, or a file cannot be written.
    """
    changes = plan_tree(out, files)
    edited = [change.path for change in changes if change.action == "edited"]
    if edited and on_edit == "refuse":
        raise UsageError(
            f"{len(edited)} files in {out} are not as they were rendered; nothing was written:\n    "
            + "\n    ".join(edited),
            "--keep-edits leaves them as they are, --overwrite replaces them",
        )
    try:
        for change in changes:
            if change.action in ("add", "update") or (change.action == "edited" and on_edit == "overwrite"):
                _write(out / change.path, files[change.path])
            elif change.action == "remove":
                (out / change.path).unlink()
                _prune(out, (out / change.path).parent)
        kept = set(edited) if on_edit == "keep" else set()
        _write(out / MANIFEST, _manifest(files, kept))
    except OSError as error:
        raise InputError(f"cannot write {out}: {error}", "check the folder's rights and free space") from error
    return changes


def _manifest(files: dict[str, str], kept: set[str]) -> str:
    # A file that a person's edit keeps away is still ours by name: its digest is that of what we would have written.
    digests = {path: _digest(text.encode()) for path, text in sorted(files.items()) if path not in kept}
    manifest = _Manifest(schema="firstfault.guard.tree/1", files=digests)
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2).decode() + "\n"


def _read_manifest(out: Path) -> dict[str, str]:
    path = out / MANIFEST
    if not path.exists():
        return {}
    refuse_special(path, "the manifest of what was rendered")
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Manifest).files
    except (msgspec.DecodeError, OSError) as error:
        raise InputError(
            f"{path}: not a manifest of a rendered tree: {error}", "render into an empty folder"
        ) from error


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest_of(out: Path, path: str) -> str | None:
    """Return the digest of a file in the tree, None when there is none; refuse links that lead elsewhere."""
    target = out / path
    if not target.resolve().is_relative_to(out.resolve()):
        raise InputError(f"{target} leads out of {out}", "remove the link, or render elsewhere")
    if not target.exists():
        return None
    if not target.is_file():
        raise InputError(f"{target} is in the way: it is not a file", "move it, or render elsewhere")
    return _digest(target.read_bytes())


def _write(path: Path, text: str) -> None:
    made = [folder for folder in path.parents if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, text)
    except OSError:
        with contextlib.suppress(OSError):  # one that is not empty stays, with those above it
            for folder in made:
                folder.rmdir()
        raise


def _prune(out: Path, folder: Path) -> None:
    while folder != out and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
