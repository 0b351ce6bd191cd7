"""Which objects a pickle would load, told from its instructions; nothing of it is executed.

Checkpoints and pickled settings lie beside logs and name classes of their libraries: that is what they are for. What
names a piece of the standard library that is no mere data, or hides its name, was made to run something.
"""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Loaded", "is_pickle", "loaded_objects"]

MAX_CHANCE = 3
_PROTOCOLS = (b"\x02", b"\x03", b"\x04", b"\x05")
_TEXTS = frozenset(
    {"STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"}
)
_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})
_STANDARD = sys.stdlib_module_names | {"__builtin__", "copy_reg", "commands", "cPickle", "nt"}
# Of the standard library, what is data: whole modules, and names of others.
_DATA_MODULES = frozenset({
    "argparse", "array", "collections", "datetime", "decimal", "enum", "fractions", "ipaddress", "numbers", "pathlib",
    "uuid", "zoneinfo",
})  # fmt: skip
_DATA_NAMES = frozenset(
    {f"{module}.{name}" for module in ("builtins", "__builtin__") for name in (
        "bool", "bytearray", "bytes", "complex", "dict", "float", "frozenset", "int", "list", "object", "range", "set",
        "slice", "str", "tuple", "unicode", "long", "xrange",
    )}
    | {"_codecs.encode", "copyreg._reconstructor", "copy_reg._reconstructor", "functools.partial", "io.BytesIO",
       "io.StringIO", "operator.itemgetter", "random.Random", "re._compile", "types.SimpleNamespace"}
)  # fmt: skip


class Loaded(NamedTuple):
    """An object that a pickle would load.

    Attributes:
        module: "" where the instructions hide it.
        name: Of the object in the module; may have dots.
        position: Byte of the instruction.
    """

    module: str
    name: str
    position: int

    @property
    def is_hostile(self) -> bool:
        """Whether no checkpoint or setting has a use for it: what runs code, and a way to it by dots or underscores."""
        top = self.module.partition(".")[0]
        if not self.module:
            return True
        if top not in _STANDARD or f"{self.module}.{self.name}" in _DATA_NAMES:
            return False
        return top not in _DATA_MODULES or "." in self.name or self.name.startswith("_")

    def __str__(self) -> str:
        return f"load {self.module}.{self.name}" if self.module else "load an object whose name it hides"


def loaded_objects(data: bytes) -> Iterator[Loaded]:
    """Yield the objects that the instructions up to the first stop or damage name, in their order."""
    import pickletools  # noqa: PLC0415 - few sources are pickles

    latest: deque[str] = deque(maxlen=2)  # on top of the stack; "" for what is no text
    memo: dict[object, str] = {}
    try:
        for known, argument, position in pickletools.genops(data):
            if known.name in _TEXTS:
                latest.append(str(argument))
            elif known.name == "MEMOIZE":
                memo[len(memo)] = latest[-1] if latest else ""
            elif known.name in _PUTS:
                memo[argument] = latest[-1] if latest else ""
            elif known.name in _GETS:
                latest.append(memo.get(argument, ""))
            elif known.name not in ("PROTO", "FRAME"):
                if known.name in ("GLOBAL", "INST"):
                    module, _, name = str(argument).partition(" ")
                    yield Loaded(module, name, position or 0)
                elif known.name == "STACK_GLOBAL":
                    module, name = latest if len(latest) > 1 and all(latest) else ("", "")
                    yield Loaded(module, name, position or 0)
                latest.append("")
    except (ValueError, OverflowError):
        return


def is_pickle(head: bytes) -> bool:
    """Say whether a source that begins with these bytes is a pickle of any protocol. Nothing is executed.

    Since protocol 2 a pickle says so; of the textual ones before, which have no head to know them by, only one that is
    here as a whole is told. Two or three instructions may be a short text that happens to read as such.
    """
    import pickletools  # noqa: PLC0415 - few sources look like one

    marked = head[:1] == b"\x80" and head[1:2] in _PROTOCOLS
    if not marked and not head.endswith(b"."):
        return False
    count = end = 0
    try:
        for _, _, position in pickletools.genops(head):
            count, end = count + 1, position or 0
            if marked and count > MAX_CHANCE:
                return True
    except (ValueError, OverflowError):
        return False
    return marked or (count > MAX_CHANCE and end == len(head) - 1)
