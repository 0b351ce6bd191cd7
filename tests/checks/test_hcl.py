"""The reader of HCL: syntax, positions of errors, and going on behind them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firstfault.checks.terraform.parser import parse_hcl

LARGE = """\
resource "aws_instance" "a" {
  count = var.on ? 2 : 0
  tags  = merge(local.tags, { Name = "a-${count.index}" })
  dynamic "ebs_block_device" {
    for_each = [for k, v in var.disks : v if v.size > 10]
    content { size = ebs_block_device.value.size }
  }
  user_data = <<-EOT
    #!/bin/bash
    %{ for key in ["a", "b"] ~}
    echo ${key} "$${HOME}"
    %{ endfor ~}
  EOT
}
"""


def problems(text):
    return [(item.line, item.column, item.message) for item in parse_hcl(text, "x.tf").problems]


@pytest.mark.parametrize(
    "text",
    [
        'a = "x ${ {b = "}"}["b"] } y"\n',
        'a = { for k in x : k => k... if k != "" }\n',
        "a = [for k, v in x : v]\n",
        "a = x.*.id[0]\n",
        'a = x[*].b["c"]\n',
        "a = x.0.b\n",
        "a = b ? c : d ? e : f\n",
        'a = {\n  b = 1\n  "c" = 2, (d) = 3\n  e : 4\n}\n',
        "a = f(\n  1,\n  [\n    2,\n  ]...\n)\n",
        "a = -b + !c * (d\n- e)\n",
        'locals { a = "one line" }\n',
        'b "l1" l2 {}\n',
        "a = 1 # comment\n// comment\n/* long\ncomment */ b = 2\n",
        'a = "${"nested ${"deep"}"}"\n',
        "a = provider::aws::arn_parse(b)\n",
        'a = "$${not} %%{one} \\u00e9"\n',
        "a-b = 1\r\nc = 2\r\n",
        LARGE,
    ],
)
def test_valid_syntax_has_no_problems(text):
    """Everything that Terraform accepts is read."""
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ('resource "a" "b" {\n  x = 1\n', 1, 1, "not closed"),
        ('a = "open\nb = 1\n', 1, 5, "not closed on its line"),
        ("a = \n", 1, 5, "expected a value"),
        ("a = [1, 2\nb = 3\n", 2, 1, "expected ]"),
        ("locals {\n  a = 1 b = 2\n}\n", 2, 9, "new line is missing"),
        ("a = <<EOT\nno end\n", 1, 5, "heredoc is not closed"),
        ("a = 1 ? 2\n", 2, 1, "expected :"),
        ("a = @\n", 1, 5, "unexpected character"),
        ('a = "${b"\n', 1, 9, "not closed"),
        ("a { b = 1\n c = 2 }\n", 2, 2, "one argument only"),
        ("a = " + "[" * 200 + "\n", 1, 75, "nested more than"),
    ],
)
def test_errors_have_a_position(text, line, column, message):
    """A syntax error is one problem with line, column and words."""
    found = problems(text)
    assert (found[0][0], found[0][1]) == (line, column)
    assert message in found[0][2]


def test_reading_goes_on_behind_an_error():
    """A broken block costs itself only; the others keep their lines."""
    file = parse_hcl('resource "a" "b" {\n  x = =\n}\nvariable "v" {\n  default = 1\n}\nlocals {\n y = 2\n}\n', "x.tf")
    assert len(file.problems) == 1
    assert [(block.type, block.line, block.end_line) for block in file.body.blocks] == [
        ("variable", 4, 6),
        ("locals", 7, 9),
    ]


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(LARGE)), st.text(alphabet='{}[]()"$%<-=?:,\n ab1.*#/\\', max_size=6))
def test_damaged_text_never_raises(position, junk):
    """Whatever is put into a file, reading ends with blocks and positioned problems."""
    text = LARGE[:position] + junk + LARGE[position:]
    for line, column, message in problems(text):
        assert 1 <= line <= text.count("\n") + 2
        assert column >= 1
        assert message
