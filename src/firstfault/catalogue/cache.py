"""A small cache of derived bytes (parsed cards, the compiled pattern database) in the user's cache folder.

It exists for speed alone: whatever goes wrong with it (unwritable, corrupt, owned by somebody else), the caller builds
the value anew and nobody notices but the clock.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path

__all__ = ["content_key", "load_bytes", "store_bytes"]

_MAGIC = b"firstfault-cache-1\n"
_DIGEST_BYTES = 32
# So many versions of the catalogue used in turn do not drive each other out.
KEPT = 4


def content_key(*parts: bytes) -> str:
    """Return a key that changes when any part does. Parts are length-prefixed, so that they cannot run together."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:32]


def load_bytes(kind: str, key: str) -> bytes | None:
    """Return what was stored under (kind, key), or None when there is nothing trustworthy.

    A file is only trusted in a folder that belongs to this user and that nobody else can write, because the compiled
    database is handed to native code; and only when its checksum is right.
    """
    folder = _folder()
    if folder is None or not _is_private(folder):
        return None
    try:
        blob = (folder / f"{kind}-{key}.bin").read_bytes()
    except OSError:
        return None
    if not blob.startswith(_MAGIC):
        return None
    digest, payload = blob[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES], blob[len(_MAGIC) + _DIGEST_BYTES :]
    return payload if hashlib.sha256(payload).digest() == digest else None


def store_bytes(kind: str, key: str, payload: bytes) -> None:
    """Keep a payload under (kind, key), atomically, and drop all but the newest few of that kind. Failing is silent."""
    import tempfile  # noqa: PLC0415 - as slow to import as all of the catalogue is to load, and seldom needed

    folder = _folder()
    if folder is None:
        return
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_private(folder):
            return
        target = folder / f"{kind}-{key}.bin"
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".new-")
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(payload).digest() + payload)
        Path(temporary).replace(target)
        others = [path for path in folder.glob(f"{kind}-*.bin") if path != target]
        for other in sorted(others, key=lambda path: path.stat().st_mtime_ns)[: 1 - KEPT]:
            other.unlink(missing_ok=True)


def _folder() -> Path | None:
    base = os.environ.get("XDG_CACHE_HOME", "")
    if base and Path(base).is_absolute():
        return Path(base) / "firstfault"
    home = os.environ.get("HOME", "")
    return Path(home) / ".cache" / "firstfault" if home else None


def _is_private(folder: Path) -> bool:
    try:
        status = folder.lstat()
    except OSError:
        return False
    if not stat.S_ISDIR(status.st_mode):
        return False
    mine = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    return mine and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
