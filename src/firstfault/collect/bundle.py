"""Packs a folder of evidence into one redacted archive that `firstfault triage` reads."""

from __future__ import annotations

import io
import tarfile
from typing import TYPE_CHECKING

from firstfault.errors import InputError
from firstfault.model.redact import redact

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from firstfault.model import Missing

__all__ = ["pack_bundle"]

BINARY_SUFFIXES = (".tar", ".pickle")


def pack_bundle(folder: Path, bundle: Path, missing: Sequence[Missing] = ()) -> int:
    """Write every file below `folder` into a gzip-compressed tar at `bundle`; return how many.

    Text is redacted (tokens, keys, account ids). Flight-recorder archives are binary and go in as they are: they hold
    file names, line numbers and shapes of collectives. What could not be gathered is written to MISSING.txt.

    Args:
        folder: What to pack; only regular files, links are left out.
        bundle: The archive; it appears whole or not at all, readable by its owner only.
        missing: What could not be gathered.

    Raises:
        InputError: The archive cannot be written.
    """
    partial = bundle.with_name(f".{bundle.name}.partial")
    count = 0
    try:
        with partial.open("xb") as raw, tarfile.open(fileobj=raw, mode="w:gz", compresslevel=6) as archive:
            partial.chmod(0o600)
            for path in sorted(folder.rglob("*")):
                if not path.is_file() or path.is_symlink():
                    continue
                content = path.read_bytes()
                if path.suffix not in BINARY_SUFFIXES:
                    content = redact(content.decode(errors="replace")).encode()
                _add(archive, str(path.relative_to(folder)), content)
                count += 1
            if missing:
                lines = (f"{each.what}: {each.why}\n    {each.command}\n" for each in missing)
                _add(archive, "MISSING.txt", redact("".join(lines)).encode())
        partial.replace(bundle)
    except OSError as error:
        raise InputError(f"the bundle {bundle} cannot be written: {error}", "name another place with --out") from error
    finally:
        partial.unlink(missing_ok=True)
    return count


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o600
    archive.addfile(info, io.BytesIO(content))
