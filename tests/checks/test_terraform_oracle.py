"""Our evaluation against Terraform's own: the same configuration, planned by the real program."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from firstfault.checks import load_inventory

pytestmark = [
    pytest.mark.terraform,
    pytest.mark.skipif(shutil.which("terraform") is None, reason="needs the terraform program"),
]

EXPRESSIONS = r"""
    arithmetic  = [1 + 2 * 3, (1 + 2) * 3, 7 / 2, 7 % 3, -7 % 3, 8 / 2]
    logic       = [true && false || true, !false, 1 == 1, "1" == 1, 3 > 2, "a" != "b"]
    conditional = [var.flag ? "yes" : "no", var.missing == null ? "null" : "set"]
    strings     = ["${var.name}-x", "a\tb\"c\"", "$${literal}", "%%{literal}", "é\u00e9"]
    heredoc     = <<-EOT
      first ${var.name}
        indented
      %{ for k in ["a", "b"] ~}
      item ${k}
      %{ endfor ~}
      %{ if var.flag }on%{ else }off%{ endif }
    EOT
    plain_heredoc = <<EOT
  kept
EOT
    lists       = [for i, v in ["a", "b", "c"] : "${i}${v}" if v != "b"]
    maps        = { for v in ["a", "b"] : v => upper(v) }
    grouped     = { for v in ["ab", "ac", "b"] : substr(v, 0, 1) => v... }
    splat       = [{ id = 1 }, { id = 2 }][*].id
    legacy      = [{ id = 1 }, { id = 2 }].*.id
    nested      = { a = { b = [1, { c = "d" }] } }.a.b[1].c
    merged      = merge({ a = 1 }, { b = 2 }, { a = 3 })
    concatenated = concat(["a"], [], ["b", "c"])
    formatted   = [format("%s-%03d", "n", 7), format("%5.2f|%t|%q", 3.14159, true, "x"), format("%v", 1.5), format("%x", 255)]
    formatlist  = formatlist("%s:%d", ["a", "b"], 80)
    joined      = [join(",", ["a", "b"]), split(",", "a,b"), replace("a.b", ".", "-"), replace("a1b2", "/[0-9]/", "#")]
    cases       = [upper("abc"), lower("ABC"), title("two words"), strrev("abc"), trimspace("  x ")]
    trims       = [trim("--x--", "-"), trimprefix("prod-x", "prod-"), trimsuffix("x.tf", ".tf"), chomp("x\n")]
    starts      = [startswith("abc", "a"), endswith("abc", "c"), strcontains("abc", "b")]
    regexes     = [regex("[a-z]+", "12ab3"), regexall("[0-9]", "a1b2"), regex("(\\d+)-(\\d+)", "10-20")]
    named       = regex("(?P<year>\\d{4})-(?P<month>\\d\\d)", "2026-11")
    numbers     = [max(1, 5, 3), min(4, 2), abs(-3), ceil(1.2), floor(1.8), pow(2, 10), signum(-5), parseint("ff", 16), sum([1, 2, 3])]
    networks    = [cidrsubnet("10.0.0.0/16", 8, 3), cidrhost("10.0.0.0/24", 5), cidrnetmask("10.0.0.0/20"), join(",", cidrsubnets("10.0.0.0/16", 4, 4, 8))]
    collections = [length(["a", "b"]), length("abc"), contains(["a"], "a"), index(["a", "b"], "b"), element(["a", "b", "c"], 4)]
    distincts   = distinct(["b", "a", "b"])
    sorted      = sort(["b", "a", "C"])
    flattened   = flatten([["a", ["b"]], [], ["c"]])
    compacted   = compact(["a", "", null, "b"])
    chunks      = chunklist(["a", "b", "c"], 2)
    ranges      = [range(3), range(1, 4), range(0, 10, 5), range(3, 0)]
    reversed    = reverse(["a", "b"])
    sliced      = slice(["a", "b", "c"], 1, 3)
    keyed       = [keys({ b = 1, a = 2 }), [for v in values({ b = 1, a = 2 }) : tostring(v)]]
    looked      = [lookup({ a = "x" }, "a", "d"), lookup({ a = "x" }, "z", "d")]
    zipped      = zipmap(["a", "b"], [1, 2])
    transposed  = transpose({ a = ["x", "y"], b = ["y"] })
    products    = setproduct(["a", "b"], ["1", "2"])
    sets        = [sort(tolist(setunion(["a"], ["b"]))), sort(tolist(setintersection(["a", "b"], ["b"]))), tolist(setsubtract(["a", "b"], ["b"]))]
    matched     = matchkeys(["i-1", "i-2"], ["a", "b"], ["b"])
    coalesced   = [coalesce("", "x"), coalesce(null, "y")]
    coalesced_l = coalescelist([], ["z"])
    ones        = [one(["only"]), one([])]
    tried       = [try(var.object.missing, "fallback"), can(var.object.size), can(var.object.nope)]
    truths      = [alltrue([true, true]), anytrue([false, true]), alltrue([])]
    encodings   = [base64encode("hi"), base64decode("aGk="), urlencode("a b&c"), md5("x"), sha256("x")]
    json        = jsonencode({ b = [1, true, null, "x"], a = { c = 1.5 } })
    decoded     = jsondecode("{\"a\": [1, {\"b\": null}]}")
    yaml        = yamldecode("a: 1\nb: [x, y]\n")
    substrings  = [substr("hello", 1, 3), substr("hello", -3, 2), substr("hello", 2, -1)]
    indented    = indent(2, "a\nb")
    converted   = [tostring(5), tostring(true), tonumber("5"), tobool("true")]
    objects     = var.object
    optional    = var.nodes
    locals      = local.derived
    paths       = [basename("a/b.txt"), dirname("a/b.txt")]
    quoted_keys = { "a b" = 1, (var.name) = 2, "${var.name}-k" = 3 }
"""
CONFIGURATION = f"""
variable "flag" {{
  type    = bool
  default = "true"
}}
variable "name" {{ default = "gpu" }}
variable "missing" {{
  type    = string
  default = null
}}
variable "object" {{
  type    = object({{ size = number, tags = optional(map(string), {{ a = "b" }}), note = optional(string) }})
  default = {{ size = "5" }}
}}
variable "nodes" {{
  type    = list(object({{ name = string, count = optional(number, 2) }}))
  default = [{{ name = "a" }}, {{ name = "b", count = 7 }}]
}}
locals {{
  base    = {{ x = 1 }}
  derived = merge(local.base, {{ y = local.base.x + 1 }})
}}
resource "terraform_data" "values" {{
  input = {{{EXPRESSIONS}  }}
}}
resource "terraform_data" "each" {{
  for_each = {{ a = 1, b = 2 }}
  input    = "${{each.key}}=${{each.value}}"
}}
resource "terraform_data" "counted" {{
  count = var.flag ? 2 : 0
  input = count.index
}}
resource "terraform_data" "none" {{
  count = var.flag ? 0 : 1
}}
module "child" {{
  source   = "./child"
  for_each = toset(["x", "y"])
  name     = each.key
}}
"""
CHILD = """
variable "name" { type = string }
variable "size" { default = 3 }
resource "terraform_data" "inner" {
  input = "${var.name}${var.size}"
}
"""


def terraform(folder, *words):
    """Run Terraform without a network; return its output."""
    environment = os.environ | {"CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1", "TF_CLI_ARGS": "-no-color"}
    result = subprocess.run(
        ["terraform", *words], cwd=folder, env=environment, check=False, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """The configuration, planned by Terraform: (folder, plan as JSON text)."""
    folder = tmp_path_factory.mktemp("root")
    (folder / "main.tf").write_text(CONFIGURATION)
    (folder / "child").mkdir()
    (folder / "child" / "main.tf").write_text(CHILD)
    terraform(folder, "init", "-input=false")
    terraform(folder, "plan", "-input=false", "-out=tfplan")
    return folder, terraform(folder, "show", "-json", "tfplan")


def plain(value):
    """Bring numbers to one form: a plan writes 2.0 as 2."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def test_every_value_equals_terraforms_own(planned):
    """Each expression and each instance has the value that Terraform plans."""
    folder, text = planned
    theirs = {
        change["address"]: plain(change["change"]["after"].get("input"))
        for change in json.loads(text)["resource_changes"]
    }
    [config] = [item for item in load_inventory([folder / "main.tf", folder / "child"]).terraform if not item.is_plan]
    ours = {block.address: plain(dict(block.body).get("input")) for block in config.find("resource")}
    assert set(ours) == set(theirs)
    ours_values, their_values = ours.pop("terraform_data.values"), theirs.pop("terraform_data.values")
    different = {
        name: (ours_values.get(name), value) for name, value in their_values.items() if ours_values.get(name) != value
    }
    assert different == {}
    assert ours == theirs


def test_the_plan_reads_like_the_configuration(planned, tmp_path):
    """The plan's own reader gives the same addresses, values and variables, with the actions."""
    _, text = planned
    (tmp_path / "plan.json").write_text(text)
    [config] = load_inventory([tmp_path / "plan.json"]).terraform
    assert config.is_plan
    counted = {block.address: block.get("input") for block in config.find("resource") if "counted" in block.address}
    assert counted == {"terraform_data.counted[0]": 0, "terraform_data.counted[1]": 1}
    assert all(block.get("change_actions") == ["create"] for block in config.find("resource"))
    assert config.variables["name"].value == "gpu"
    [call] = config.find("module")
    assert (call.address, call.type) == ("module.child", "./child")
