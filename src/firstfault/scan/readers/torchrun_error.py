"""The error file that torchrun's `@record` writes for a rank that raised (TORCHELASTIC_ERROR_FILE).

The shape is the same from torch 1.13 to 2.13: {"message": {"message": "Type: text", "extraInfo": {"py_callstack": …,
"timestamp": "…"}, "errorCode": …}}. A handler of your own may write `message` as a plain string, `timestamp` beside it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from firstfault.scan.readers.facts import Context, mapping, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model import TextLine

__all__ = ["error_facts", "is_torchrun_error"]

_RANK_IN_PATH = re.compile(r"attempt_\d+/(\d+)/[^/!]*$")


def is_torchrun_error(value: dict[str, Any]) -> bool:
    """Say whether a document is an error file."""
    message = value.get("message")
    if isinstance(message, dict):
        return isinstance(message.get("message"), str) and ("extraInfo" in message or "errorCode" in message)
    return (
        isinstance(message, str) and set(value) <= {"message", "timestamp", "errorCode", "extraInfo"} and len(value) > 1
    )


def error_facts(value: dict[str, Any], context: Context) -> Iterator[TextLine]:
    """Yield the error with its time, then the traceback as the program would have printed it."""
    detail = mapping(value, "message") or value
    extra = mapping(detail, "extraInfo")
    time = extra.get("timestamp") or value.get("timestamp")
    match = _RANK_IN_PATH.search(context.source_name)
    code = text_of(detail.get("errorCode") or value.get("errorCode"))
    head = f"torchrun-error rank={match[1] if match else '?'} time={text_of(time)} exitcode={code or '1'} message="
    yield from context.print(head, detail.get("message"), needle='"message"', time=time)
    if stack := text_of(extra.get("py_callstack")):
        yield from context.print("", stack, needle='"py_callstack"', time=time)
