"""What `--help` says: of every option what it does, and examples that the command line takes."""

from __future__ import annotations

import re
import shlex

import click
import pytest
from click.testing import CliRunner

from firstfault.cli.app import VERBS, app
from firstfault.guardrails.options import FEATURES

WIDTH = 80


def commands(group, path=()):
    """Yield every command with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


COMMANDS = dict(commands(app))


def shown(*words):
    """The help of a command in a terminal of 80 columns."""
    result = CliRunner().invoke(app, [*words, "--help"], terminal_width=WIDTH)
    assert result.exit_code == 0
    return result.output


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_says_what_it_does(words):
    """Only --format speaks for itself."""
    options = [each for each in COMMANDS[words].params if isinstance(each, click.Option)]
    assert [each.opts[0] for each in options if not each.help and each.name not in {"form", "format_"}] == []


@pytest.mark.parametrize("words", [(), *COMMANDS], ids=" ".join)
def test_help_fits_a_terminal_and_cuts_nothing_off(words):
    lines = shown(*words).splitlines()
    assert [line for line in lines if len(line) > WIDTH] == []
    assert [line for line in lines if line.endswith("...") and "Usage" not in line] == []


def examples():
    """The lines of help that call firstfault, without their remarks."""
    for words in [(), *COMMANDS]:
        for line in shown(*words).splitlines():
            for call in (
                re.findall(r"(?<!`)\bfirstfault (?!PATH)[a-z].*?(?=  |$)", line) if line.startswith("    ") else []
            ):
                yield " ".join(words), call


@pytest.mark.parametrize(("where", "call"), list(examples()))
def test_examples_are_calls_that_exist(where, call):
    """Each verb, and each option that is written behind it."""
    words = shlex.split(call)[1:]
    path = tuple(words[:2]) if tuple(words[:2]) in COMMANDS else tuple(words[:1])
    assert path in COMMANDS, where
    known = {name for each in COMMANDS[path].params for name in (*each.opts, *each.secondary_opts)}
    given = {word for word in words[: words.index("--") if "--" in words else None] if re.match(r"--?[a-z]", word)}
    assert given <= known


def test_there_are_examples_for_whoever_was_just_woken():
    assert {call.split()[1] for where, call in examples() if not where} >= {"triage", "explain"}
    assert set(VERBS) >= {"triage", "audit"}


def test_features_of_a_cluster_are_listed():
    text = re.sub(r"\s+|- ", " ", shown("guard", "render"))
    assert all(name in text.replace(" ", "") for name in (each.replace(" ", "") for each in FEATURES))
