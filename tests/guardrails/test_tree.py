"""A tree is written once, updated in place, and never over somebody's edit."""

from __future__ import annotations

import pytest

from firstfault.errors import InputError, UsageError
from firstfault.guardrails import Options, apply_tree, plan_tree, render

FILES = {"a.yaml": "a: 1\n", "sub/b.yaml": "b: 1\n"}


def actions(changes):
    return {change.path: change.action for change in changes}


def test_a_second_run_changes_nothing(tmp_path):
    """Idempotent: the same files again are all unchanged."""
    apply_tree(tmp_path, FILES)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.yaml")}

    changes = apply_tree(tmp_path, FILES)

    assert set(actions(changes).values()) == {"unchanged"}
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.yaml")} == before


def test_the_same_options_give_the_same_bytes():
    """Deterministic, whatever order the features were named in."""
    one = render(Options(features=frozenset(["kyverno", "prometheus-operator"])))
    two = render(Options(features=frozenset(["prometheus-operator", "kyverno"])))

    assert one.files == two.files


def test_what_is_no_longer_rendered_is_removed(tmp_path):
    """Only files that we wrote, with their empty folders."""
    apply_tree(tmp_path, FILES)
    (tmp_path / "theirs.txt").write_text("mine")

    changes = apply_tree(tmp_path, {"a.yaml": "a: 2\n"})

    assert actions(changes) == {"a.yaml": "update", "sub/b.yaml": "remove"}
    assert not (tmp_path / "sub").exists()
    assert (tmp_path / "theirs.txt").read_text() == "mine"


def test_an_edited_file_stops_the_run_before_anything_is_written(tmp_path):
    """The message names the file and the two ways out."""
    apply_tree(tmp_path, FILES)
    (tmp_path / "a.yaml").write_text("a: edited\n")

    with pytest.raises(UsageError, match=r"a\.yaml") as error:
        apply_tree(tmp_path, {**FILES, "a.yaml": "a: 2\n", "c.yaml": "c: 1\n"})

    assert "--keep-edits" in str(error.value)
    assert not (tmp_path / "c.yaml").exists()


def test_edits_can_be_kept_or_overwritten(tmp_path):
    """Kept edits are still seen as edits on the run after."""
    apply_tree(tmp_path, FILES)
    (tmp_path / "a.yaml").write_text("a: edited\n")

    apply_tree(tmp_path, FILES, "keep")
    assert (tmp_path / "a.yaml").read_text() == "a: edited\n"
    assert actions(plan_tree(tmp_path, FILES))["a.yaml"] == "edited"

    apply_tree(tmp_path, FILES, "overwrite")
    assert (tmp_path / "a.yaml").read_text() == "a: 1\n"
    assert actions(plan_tree(tmp_path, FILES))["a.yaml"] == "unchanged"


def test_an_edited_file_that_is_no_longer_rendered_is_kept(tmp_path):
    """It is somebody's work now."""
    apply_tree(tmp_path, FILES)
    (tmp_path / "a.yaml").write_text("a: edited\n")

    changes = apply_tree(tmp_path, {"sub/b.yaml": "b: 1\n"})

    assert actions(changes)["a.yaml"] == "kept"
    assert (tmp_path / "a.yaml").exists()


def test_a_foreign_file_in_the_way_is_not_overwritten(tmp_path):
    """A file that we never wrote counts as an edit."""
    (tmp_path / "a.yaml").write_text("theirs: 1\n")

    with pytest.raises(UsageError):
        apply_tree(tmp_path, FILES)


def test_a_link_out_of_the_tree_is_not_followed(tmp_path):
    """Writing through it would touch what is not ours."""
    outside = tmp_path / "outside"
    outside.mkdir()
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "sub").symlink_to(outside)

    with pytest.raises(InputError, match="leads out"):
        apply_tree(tree, FILES)

    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("content", ["not json", '{"schema": "x"}', "[]"])
def test_a_broken_manifest_is_an_input_error(tmp_path, content):
    """No traceback, and nothing is written."""
    (tmp_path / "firstfault-guard.json").write_text(content)

    with pytest.raises(InputError, match="manifest"):
        apply_tree(tmp_path, FILES)
