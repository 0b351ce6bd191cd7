"""Scenario files: the bundled ones keep their promises, wrong ones are refused with the field that is wrong."""

from __future__ import annotations

import os
from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml

from firstfault.catalogue import load_catalogue
from firstfault.drills import bundled_scenarios, find_scenario, json_schema, load_scenario, run_drill
from firstfault.drills.compare import facts
from firstfault.drills.injectors import INJECTORS
from firstfault.drills.lint import MEASURES, lint_scenario
from firstfault.drills.scenario import _HERE
from firstfault.errors import InputError, UsageError
from firstfault.model.drill import Change, Phase

FILES = sorted((_HERE / "scenarios").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_bundled_scenario_keeps_its_promises(path):
    """It passes its own lint and the published schema, and the cause that it expects has a card."""
    assert lint_scenario(path) == []
    scenario = load_scenario(path)
    jsonschema.validate(yaml.safe_load(path.read_text()), json_schema())
    if scenario.cause != "none":
        assert load_catalogue().resolve(scenario.cause)
    assert scenario.title
    assert scenario.about
    for variant in scenario.variants.values():
        assert find_scenario(variant)


def test_every_injector_is_described_and_used():
    """A kind that no scenario uses is not tested by any drill."""
    used = {type(injection) for scenario in bundled_scenarios() for injection in scenario.injections}
    assert used == set(INJECTORS)


@pytest.fixture
def write(tmp_path, quick):
    """Write a scenario file that differs from a good one."""
    good = yaml.safe_load(Path(quick).read_text())
    (tmp_path / "pair.py").write_text("")

    def change(**fields):
        path = tmp_path / "quick.yaml"
        path.write_text(yaml.safe_dump({**good, **fields}))
        load_scenario.cache_clear()
        return path

    return change


def test_good_file_has_nothing_to_say(write):
    """The file that the following tests change is good."""
    assert lint_scenario(write()) == []


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"causes": "x"}, "causes"),
        ({"injections": [{"kind": "meteor"}]}, "meteor"),
        ({"injections": [{"kind": "security-group-toggles", "set": {"x": "maybe"}}]}, "bool"),
        ({"topology": "nowhere"}, "nowhere"),
        ({"topology": "../../etc/passwd"}, "no topology"),
        ({"expect": [{"item": "i", "measure": "status", "equals": [["deeper"]]}]}, "array"),
    ],
)
def test_wrong_shape_is_refused_with_the_field(write, fields, words):
    """What does not have the shape of a scenario is an input error that names it."""
    with pytest.raises(InputError, match=words):
        lint_scenario(write(**fields))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "other"}, "file's name"),
        ({"cause": "network"}, "cause id"),
        ({"cause": "network.moon.full"}, "cause id"),
        ({"workload": {"program": "pair.py", "ranks": []}}, "at least one rank"),
        ({"workload": {"program": "pair.py", "ranks": ["node-a"], "missing": [7]}}, "no rank 7"),
        ({"workload": {"program": "pair.py", "ranks": ["node-a"], "timeouts": {"gloo": -5}}}, "-5 is not a number"),
        ({"workload": {"program": "pair.py", "ranks": ["node-a"], "deadline_s": float("nan")}}, "nan is not a number"),
        ({"workload": {"program": "pair.py", "ranks": ["node-a"], "master": ["m", 70000]}}, "70000 is no port"),
        ({"injections": [{"kind": "pulled-cable", "node": "node-z"}]}, "node-z"),
        ({"injections": [{"kind": "signal", "rank": 7, "signal": "SIGKILL"}]}, "no rank 7"),
        ({"injections": [{"kind": "limited-rate", "nodes": ["node-a"], "mbit_per_s": -3}]}, "-3 is not between"),
        ({"injections": [{"kind": "limited-rate", "nodes": ["node-a"], "mbit_per_s": 34360}]}, "0.001 and 34,359"),
        ({"injections": [{"kind": "limited-rate", "nodes": ["node-a"], "mbit_per_s": 1e-9}]}, "1e-09 is not between"),
        ({"injections": [{"kind": "drop-packets", "nodes": ["node-a"], "percent": 101}]}, "101 is not between"),
        ({"injections": [{"kind": "drop-packets", "nodes": ["node-a"], "larger_than": 70000}]}, "65,535"),
        ({"stops_at": {"direct/mpi": "store"}}, "'direct/mpi' is no launcher"),
        ({"stops_at": {"direct": "shop"}}, "no rung 'shop'"),
        ({"causes": {"mpi": "network.c10d.refused"}}, "'mpi' is no backend"),
        ({"injections": [{"kind": "drop-packets", "nodes": ["node-a"], "ports": [9, 1]}]}, "9-1 is no port range"),
        ({"injections": [{"kind": "dns-answer", "name": "m", "address": "1.2.3"}]}, "no IPv4 address"),
        ({"injections": [{"kind": "small-file-system", "node": "node-a", "bytes": 1, "path": "/x/../y"}]}, "absolute"),
        ({"injections": [{"kind": "environment", "set": {"A=B": "c"}}]}, "environment variable"),
        ({"injections": [{"kind": "security-group-toggles", "set": {"nope": False}}]}, "no toggle is called 'nope'"),
        ({"injections": [{"kind": "security-group-rules", "remove": ["node/nope"]}]}, "no rule is called"),
        ({"injections": [{"kind": "environment", "start": {"log": "(a"}}]}, "no regular expression"),
        ({"workload": {"program": "pair.py", "ranks": ["node-z"]}}, "node-z"),
        ({"workload": {"program": "gone.py", "ranks": ["node-a"]}}, "no such program"),
        ({"expect": [{"item": "i", "measure": "weather", "equals": 1}]}, "weather"),
        ({"expect": [{"item": "i", "measure": "probes.webhok-*", "equals": "open"}]}, "webhok"),
        ({"expect": [{"item": "i", "measure": "job.seconds"}]}, "nothing to compare"),
    ],
)
def test_names_that_nothing_answers_to_are_found(write, fields, words):
    """What has the right shape and still cannot work is reported before it is run."""
    (problem,) = lint_scenario(write(**fields))
    assert words in problem


def test_unknown_drill_is_a_usage_error():
    """The message says how to find the names."""
    with pytest.raises(UsageError, match="drill list"):
        find_scenario("sg-blok")


def test_file_that_is_not_yaml_is_refused(tmp_path):
    """A binary or broken file is an input error, not a traceback."""
    path = tmp_path / "broken.yaml"
    path.write_bytes(b"\x00\x01: [")
    with pytest.raises(InputError, match=r"broken\.yaml"):
        load_scenario(path)


@pytest.mark.parametrize(
    "content", ["name: 2024-13-45\n", f"name: {'9' * 5000}\n"], ids=["no such date", "huge number"]
)
def test_values_that_yaml_allows_and_python_does_not_are_refused(tmp_path, content):
    """They are errors of the input with the file's name, like everything else in it."""
    path = tmp_path / "odd.yaml"
    path.write_text(content)
    with pytest.raises(InputError, match=r"odd\.yaml"):
        load_scenario(path)


def test_pipe_is_refused_and_not_waited_for(tmp_path):
    """Reading it would wait for a writer for ever."""
    path = tmp_path / "pipe.yaml"
    os.mkfifo(path)
    with pytest.raises(InputError, match="not a file"):
        load_scenario(path)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"address": "10.0.0.300/24"}, "no IPv4 address"),
        ({"address": "10.0.0.2/24"}, "'10.0.0.2' is there twice"),
        ({"hostname": "x" * 64}, "no host name"),
        ({"groups": ["nope"]}, "no group is called 'nope'"),
        ({"files": {"etc/hosts": ""}}, "no absolute path"),
        ({"settings": {"kernel.sysrq": "1"}}, "no network setting"),
        ({"settings": {"net.../../kernel.sysrq": "1"}}, "no network setting"),
    ],
)
def test_topology_that_cannot_be_built_is_found(write, changed, words):
    """One's own topology is looked at before any of it is made."""
    first = {"name": "node-a", "hostname": "a", "address": "10.0.0.1/24", **changed}
    second = {"name": "node-b", "hostname": "b", "address": "10.0.0.2/24"}
    path = write(topology={"name": "own", "nodes": [first, second]}, injections=[], expect=[], predict=[])
    assert any(words in problem for problem in lint_scenario(path))


def test_scenario_that_lint_refuses_is_not_run(write, state):
    """Nothing is made, not even a journal, when the file cannot work."""
    with pytest.raises(InputError, match="no rank 7"):
        run_drill(str(write(injections=[{"kind": "signal", "rank": 7, "signal": "SIGKILL"}])))
    assert not state.exists()


def test_scenario_survives_a_round_trip():
    """What `drill show` prints can be written to a file and read again."""
    scenario = find_scenario("sg-block")
    again = msgspec.convert(yaml.safe_load(msgspec.yaml.encode(scenario)), type(scenario))
    assert again == scenario
    assert b"null" not in msgspec.yaml.encode(scenario)  # what is as usual is not written out


def test_measures_are_those_that_are_measured():
    """The table that lint checks against is the tree that `facts` builds."""
    phase = Phase(name="injected", started="", seconds=0, ranks=[], firewall={}, probes=[])
    tree = facts(phase, Change(), None, _HERE)
    assert set(tree) == set(MEASURES)
    for name, keys in MEASURES.items():
        if keys and keys != ("*",) and tree[name]:
            assert set(keys) == set(tree[name]), name


def test_cards_name_only_drills_that_exist():
    """A card that promises a drill keeps its word."""
    known = {scenario.name for scenario in bundled_scenarios()}
    promised = {(card.id, name) for card in load_catalogue().cards.values() for name in card.drill.ids}
    assert {pair for pair in promised if pair[1] not in known} == set()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "it is empty"),
        ("# only a remark\n", "it is empty"),
        ("- a\n", "it is not a mapping"),
        ("name: [\n", "not YAML: line 2, column 1: "),
        ("a: \x01\n", "not YAML: "),
    ],
)
def test_what_is_no_scenario_is_told_in_words_of_the_file(tmp_path, content, said):
    """Neither of the parser's own words, nor with the advice to run what has just said so."""
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    with pytest.raises(InputError) as caught:
        load_scenario(path)
    assert said in caught.value.what
    assert "byte string" not in str(caught.value)
    assert "lint FILE" not in str(caught.value)
    assert "drill new" in str(caught.value)
