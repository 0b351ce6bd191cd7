"""Foreign text on a terminal and in CI logs."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.cli.output import write_output
from firstfault.model.safe_text import safe_text, strip_ansi

CASES = {
    "\x1b[31mred\x1b[0m": "red",
    "\x1b]0;title\x07text": "text",
    "\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\": "link",
    "\x9b31mred": "red",
    "a\rb\x07\x00": "a\\x0db\\x07\\x00",
    "abc\u202etxt.exe": "abc\\u202etxt.exe",
    "::error file=a.py::boom": ": :error file=a.py::boom",
    "  ::set-output name=x::y\nok": "  : :set-output name=x::y\nok",
    "::stop-commands::x": ": :stop-commands::x",
    "##[error]boom": "# #[error]boom",
    "x ##vso[task.setvariable variable=a]b": "x # #vso[task.setvariable variable=a]b",
    "torch::jit::load a::b": "torch::jit::load a::b",
    "tab\tstays\nand lines": "tab\tstays\nand lines",
    "▶ Preparing 한국어 ✓": "▶ Preparing 한국어 ✓",
    "\ud800": "\\ud800",
}


@pytest.mark.parametrize("text", CASES)
def test_cases(text):
    """Escape sequences vanish, other controls are shown, commands lose their magic, normal text stays."""
    assert safe_text(text) == CASES[text]


def test_no_line_of_a_page_is_a_command(capsys):
    """Wrapping moves what stood in the middle of a log line to the beginning of a printed one."""
    line = safe_text(f"ValueError: {'x' * 60} ::error file=a::boom")
    write_output("\n".join(textwrap.wrap(line, 72, subsequent_indent="  ")), None)
    assert capsys.readouterr().out.splitlines()[-1] == "  : :error file=a::boom"


@given(st.text())
def test_any_text_comes_out_printable_and_stable(text):
    """Whatever comes in: no control but tab and line feed comes out, and twice is once."""
    safe = safe_text(text)
    assert safe_text(safe) == safe
    assert not any((ord(char) < 32 and char not in "\t\n") or 0x7F <= ord(char) < 0xA0 for char in safe)
    safe.encode()


def test_strip_ansi_leaves_plain_text_alone():
    """The fast path returns the text as it is."""
    assert strip_ansi("plain") == "plain"
