"""The verb `audit`: exit codes, JSON, suppressions, unreadable inputs."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import firstfault
from firstfault.cli.audit import audit
from firstfault.errors import InputError, UsageError

BAD = """\
apiVersion: v1
kind: Pod
metadata:
  name: llm
spec:
  containers:
    - name: server
      image: vllm/vllm-openai:v0.11.0
"""
GOOD = BAD.replace("spec:\n", "spec:\n  enableServiceLinks: false\n")
ONLY = ("--check", "service-links-enabled")


def run(*words):
    """Return exit code and output of the verb."""
    result = CliRunner().invoke(audit, [str(word) for word in words], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.return_value, result.output


@pytest.fixture
def pod(tmp_path, monkeypatch):
    """A folder with one bad Pod, as the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pod.yaml").write_text(BAD)
    return tmp_path / "pod.yaml"


def test_fail_exits_1_and_json_has_the_contract(pod):
    """A finding exits 1; JSON carries every field of the contract."""
    code, output = run("pod.yaml", *ONLY, "--format", "json")
    report = json.loads(output)
    assert code == 1
    assert report["schema"] == "firstfault.audit/1"
    [finding] = report["findings"]
    contract = {"check", "layer", "result", "severity", "message", "path", "line", "fix", "suppressed"}
    assert contract <= set(finding)
    assert (finding["result"], finding["path"], finding["line"]) == ("fail", "pod.yaml", 6)
    assert report["summary"]["failed"] == 1


UNKNOWN = """\
variable "on" {
  type = bool
}
module "eks" {
  source  = "terraform-aws-modules/eks/aws"
  version = "~> 21.0"

  # firstfault:ignore=cni-after-compute,toggle-not-validated made by another team
  node_security_group_enable_recommended_rules = var.on
}
"""


def test_only_unknowns_exit_3(pod):
    """A value that nobody knows is unknown, with the reason; alone it exits 3, or 0 with --unknown-ok."""
    pod.unlink()
    (pod.parent / "main.tf").write_text(UNKNOWN)
    only = ("main.tf", "--check", "recommended-rules-off")
    code, output = run(*only, "--format", "json")
    [finding] = json.loads(output)["findings"]
    assert (code, finding["result"]) == (3, "unknown")
    assert "no default" in finding["message"]
    assert run(*only, "--unknown-ok")[0] == 0


def test_fail_on_counts_by_severity(pod):
    """Findings less severe than --fail-on do not fail the run; unreadable inputs always do."""
    assert run("pod.yaml", *ONLY, "--fail-on", "high")[0] == 1
    assert run("pod.yaml", *ONLY, "--fail-on", "critical")[0] == 0
    (pod.parent / "broken.yaml").write_text("a: [\n")
    assert run(".", *ONLY, "--fail-on", "critical")[0] == 2


def test_comment_in_terraform_covers_the_line_and_the_block(pod):
    """In HCL a comment above an argument covers that line, one above the block everything in it; // works, too."""
    pod.unlink()
    bad = UNKNOWN.replace("var.on", "false").replace("  # firstfault", "  // firstfault")
    bad = bad.replace("cni-after-compute,toggle-not-validated", "recommended-rules-off,toggle-not-validated")
    (pod.parent / "main.tf").write_text(bad)
    report = json.loads(run("main.tf", "--check", "recommended-rules-off", "--format", "json")[1])
    assert [item["suppressed"] for item in report["findings"]] == [True]
    above = (
        "# firstfault:ignore=recommended-rules-off drill cluster\n"
        + bad.partition('variable "on" {\n  type = bool\n}\n')[2]
    )
    (pod.parent / "main.tf").write_text(above.replace("  // firstfault:ignore", "  // was"))
    report = json.loads(run("main.tf", "--check", "recommended-rules-off", "--format", "json")[1])
    assert [item["suppressed"] for item in report["findings"]] == [True]


def test_standard_input(pod, monkeypatch):
    """`-` reads a stream, as from kubectl kustomize."""
    result = CliRunner().invoke(audit, ["-", *ONLY, "--format", "json"], input=BAD, standalone_mode=False)
    [finding] = json.loads(result.output)["findings"]
    assert (result.return_value, finding["path"], finding["line"]) == (1, "stdin", 6)


def test_python_function_is_the_same_feature(pod):
    """firstfault.audit() gives the report that the verb prints."""
    report = firstfault.audit(["pod.yaml"], checks=["service-links-enabled"])
    assert [(item.check, item.result, item.line) for item in report.findings] == [("service-links-enabled", "fail", 6)]


def test_excluded_files_are_not_read(pod):
    """`exclude` of the configuration leaves files out, broken ones too."""
    (pod.parent / "vendor").mkdir()
    (pod.parent / "vendor" / "broken.yaml").write_text("a: [\n")
    (pod.parent / "firstfault.toml").write_text('[audit]\nexclude = ["vendor/*"]\n')
    assert run(".", *ONLY)[0] == 1


@pytest.mark.parametrize("text", ["[audit]\nnope = 1\n", "[audit\n", '[[audit.suppress]]\nreason = "x"\n'])
def test_a_wrong_configuration_is_an_error(pod, text):
    """An unknown key, broken TOML and a missing field are input errors that name the file."""
    (pod.parent / "firstfault.toml").write_text(text)
    with pytest.raises(InputError, match=r"firstfault\.toml"):
        run("pod.yaml", *ONLY)


@pytest.mark.parametrize("words", [(), ("--explain", "service-links-enabled"), ("--list-checks",)])
def test_what_needs_no_path(pod, words):
    """Without a path there is nothing to audit; the list and the explanation need none."""
    if not words:
        with pytest.raises(UsageError, match="nothing to audit"):
            run()
        return
    code, output = run(*words)
    assert code == 0
    assert "service-links-enabled" in output


@pytest.mark.parametrize("words", [("--explain", "service-links-enabled"), ("--list-checks",)])
@pytest.mark.parametrize("form", ["sarif", "junit", "markdown"])
def test_checks_themselves_have_no_form_of_a_report(words, form):
    with pytest.raises(UsageError, match="text or json"):
        run(*words, "--format", form)


def test_an_unknown_check_suggests_the_right_one(pod):
    """A check that does not exist names the ones that are close."""
    with pytest.raises(UsageError, match="service-links-enabled"):
        run("pod.yaml", "--check", "service-links")


def test_pass_exits_0(pod):
    """Nothing wrong exits 0."""
    pod.write_text(GOOD)
    assert run("pod.yaml", *ONLY)[0] == 0


def test_unreadable_file_exits_2_and_the_others_are_audited(pod):
    """One broken file gives 2 and its position; the good file's finding is still there."""
    (pod.parent / "broken.yaml").write_text("a: [1\nb: 2\n")
    code, output = run(pod.parent, *ONLY, "--format", "json")
    report = json.loads(output)
    assert code == 2
    assert [finding["result"] for finding in report["findings"]] == ["fail"]
    [problem] = report["problems"]
    assert (problem["path"], problem["line"]) == ("broken.yaml", 2)
    assert "broken.yaml:2:" in problem["message"]


def test_a_broken_document_does_not_hide_the_next_one(pod):
    """In a stream, documents before and after a broken one are audited, at their own lines."""
    pod.write_text(f"{GOOD}---\nb: [\n---\n{BAD}")
    code, output = run("pod.yaml", *ONLY, "--format", "json")
    report = json.loads(output)
    assert code == 2
    assert [(item["result"], item["line"]) for item in report["findings"]] == [("fail", 18), ("pass", 6)]


def test_missing_path_among_others_exits_2_and_the_others_are_audited(pod):
    """The list of problems names it."""
    alone = json.loads(run(".", "--format", "json")[1])
    code, text = run(".", "nowhere", "--format", "json")

    report = json.loads(text)
    assert code == 2
    assert [problem["path"] for problem in report["problems"]] == ["nowhere"]
    assert report["findings"] == alone["findings"] != []


def test_missing_path_is_a_usage_error(pod):
    """A path that does not exist says so."""
    with pytest.raises(UsageError, match="no such file"):
        run("nowhere")


@pytest.mark.parametrize(
    "comment",
    [
        "# firstfault:ignore=service-links-enabled vendor manifest",
        "# firstfault:ignore=service-links-enabled vendor manifest until=2999-01-01",
        "# firstfault:ignore=* vendor manifest",
    ],
)
def test_comment_above_the_object_suppresses(pod, comment):
    """A comment above the object, with a reason, accepts its findings."""
    pod.write_text(f"{comment}\n{BAD}")
    code, output = run("pod.yaml", *ONLY, "--format", "json")
    report = json.loads(output)
    assert code == 0
    assert report["findings"][0]["suppressed"] is True
    assert report["findings"][0]["suppressed_because"] == "vendor manifest"
    assert report["suppression_notes"] == []


@pytest.mark.parametrize(
    ("comment", "why"),
    [
        ("# firstfault:ignore=service-links-enabled", "no reason"),
        ("# firstfault:ignore=service-links-enabled old until=2020-01-01", "expired"),
        ("# firstfault:ignore=service-links-enabled old until=soon", "not a date"),
    ],
)
def test_void_suppressions_do_not_count_and_are_reported(pod, comment, why):
    """Without a reason, expired or with a broken date, a suppression has no effect and is named."""
    pod.write_text(f"{comment}\n{BAD}")
    code, output = run("pod.yaml", *ONLY, "--format", "json")
    report = json.loads(output)
    assert code == 1
    assert why in report["suppression_notes"][0]["why"]


def test_unmatched_suppression_is_reported(pod):
    """A suppression that matches nothing is reported with its own line."""
    pod.write_text(f"{GOOD}# firstfault:ignore=service-links-enabled nothing here\n")
    report = json.loads(run("pod.yaml", *ONLY, "--format", "json")[1])
    assert report["suppression_notes"][0]["line"] == 10
    assert "matches no finding" in report["suppression_notes"][0]["why"]


def test_config_suppresses_by_path_and_subject(pod):
    """firstfault.toml accepts findings in files that one does not own."""
    (pod.parent / "firstfault.toml").write_text(
        '[[audit.suppress]]\ncheck = "service-links-enabled"\nsubject = "Pod/llm"\nreason = "theirs"\n'
    )
    code, output = run("pod.yaml", *ONLY, "--format", "json")
    assert code == 0
    assert json.loads(output)["findings"][0]["suppressed_in"] == "config"


def test_baseline_round_trip_survives_moved_lines(pod):
    """A baseline accepts what was there, also after lines moved; a new finding still fails."""
    run("pod.yaml", *ONLY, "--write-baseline", "base.json", "--reason", "day one")
    pod.write_text("# moved\n\n" + BAD)
    assert run("pod.yaml", *ONLY, "--baseline", "base.json")[0] == 0
    pod.write_text(BAD + "---\n" + BAD.replace("name: llm", "name: other"))
    assert run("pod.yaml", *ONLY, "--baseline", "base.json")[0] == 1


def test_text_shows_the_frame_and_hides_control_characters(pod):
    """The terminal report marks the line, and a file cannot write escape sequences to the terminal."""
    pod.write_text(BAD.replace("name: llm", 'name: "l\\u001b[2Jm"'))
    output = run("pod.yaml", *ONLY)[1]
    assert "> 6 |" in output
    assert "Pod/lm" in output
    assert "\x1b" not in output


@pytest.mark.parametrize(("option", "owner"), [(("--yes",), "--fix"), (("--context", "x"), "--live")])
def test_option_that_means_nothing_by_itself_is_refused(pod, option, owner):
    with pytest.raises(UsageError, match=owner):
        run("pod.yaml", *option)
    assert pod.read_text() == BAD
