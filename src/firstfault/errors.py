"""Every error that firstfault raises on purpose, in one tree.

::

    FirstFaultError                 exit 2 unless a subclass says otherwise
     ├─ UsageError                  the call itself is wrong: options, names, values
     ├─ InputError                  a given input cannot be read or understood
     │   └─ LimitError              reading on would exceed a limit on size, depth, count or path
     ├─ UnsupportedError            this machine, kernel or platform cannot do it
     └─ RestoreError          (4)   a fault that we injected could not be taken back

Each message says what happened, why, and what to do next. The command line prints it as it is, without a traceback.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

__all__ = [
    "ExitCode",
    "FirstFaultError",
    "InputError",
    "LimitError",
    "RestoreError",
    "UnsupportedError",
    "UsageError",
    "worst_exit_code",
]


class ExitCode(IntEnum):
    """Exit codes of every verb. Where several apply, `worst_exit_code` decides."""

    OK = 0
    FINDING = 1
    USAGE = 2
    UNKNOWN = 3
    RESTORE_FAILED = 4


_PRECEDENCE = (
    ExitCode.RESTORE_FAILED,
    ExitCode.USAGE,
    ExitCode.FINDING,
    ExitCode.UNKNOWN,
    ExitCode.OK,
)


def worst_exit_code(*codes: ExitCode) -> ExitCode:
    """Return the code to exit with where several apply: 4 > 2 > 1 > 3 > 0.

    Args:
        codes: What the parts of a run ended with; none means that nothing went wrong.
    """
    return next((code for code in _PRECEDENCE if code in codes), ExitCode.OK)


class FirstFaultError(Exception):
    """Base of all errors raised on purpose.

    Args:
        what: What happened and why, in one or two sentences.
        todo: What the reader can do next; empty when `what` says it already.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.USAGE

    def __init__(self, what: str, todo: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.todo = todo

    def __str__(self) -> str:
        return f"{self.what}\n  what to do: {self.todo}" if self.todo else self.what


class UsageError(FirstFaultError):
    """The call itself is wrong: an option, a name or a value that cannot be."""


class InputError(FirstFaultError):
    """An input that was named cannot be read or understood."""


class LimitError(InputError):
    """Reading on would exceed a limit on size, depth, count or path (archive bombs, endless streams)."""


class UnsupportedError(FirstFaultError):
    """This machine cannot do it: platform, kernel feature, sandbox policy, missing program or package."""


class RestoreError(FirstFaultError):
    """A fault that we injected could not be taken back; the message says exactly what is owed."""

    exit_code: ClassVar[ExitCode] = ExitCode.RESTORE_FAILED
