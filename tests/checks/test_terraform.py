"""Evaluation of Terraform: against tfparse where everything is known, and what stays unresolved where it is not."""

from __future__ import annotations

import json
import subprocess

import pytest

from firstfault.checks import load_inventory
from firstfault.checks.located import ABSENT, Unresolved

FUNCTIONS = """\
locals {
  base = { a = 1, b = "two" }
  list = ["x", "y", "z"]
}
resource "test_thing" "a" {
  merged    = merge(local.base, { b = 3, c = [1, 2] })
  joined    = join("-", [for i, v in local.list : "${v}${i}" if v != "y"])
  upper     = { for v in local.list : v => upper(v) }
  formatted = format("%s-%03d", "n", 7)
  cidr      = cidrsubnet("10.0.0.0/16", 8, 3)
  host      = cidrhost("10.0.0.0/24", 5)
  tried     = try(local.base.missing, "fallback")
  cond      = length(local.list) > 2 ? "many" : "few"
  looked    = lookup(local.base, "q", "dflt")
  flat      = flatten([["a"], ["b", ["c"]]])
  tern      = true && !false
  math      = (1 + 2) * 3 - 4 / 2
  splat     = [{ id = 1 }, { id = 2 }][*].id
  sub       = substr("abcdef", 1, 3)
  replaced  = replace("a.b.c", ".", "-")
  splitted  = split(",", "a,b")
  concats   = concat(["a"], ["b"])
  cont      = contains(local.list, "x")
  keys      = keys({ b = 1, a = 2 })
  values    = values({ b = 1, a = 2 })
  coal      = coalesce("", "v")
  json      = jsonencode({ a = [1, true, null], b = "c" })
  ranged    = range(3)
  distincts = distinct(["a", "b", "a"])
  trimmed   = trimspace("  a ")
  numbered  = tonumber("5")
  texted    = tostring(5)
  heredoc   = <<-EOT
    a ${local.base.b}
      b
  EOT
  directive = "%{ if true }yes%{ else }no%{ endif }"
  zipped    = zipmap(["a", "b"], [1, 2])
  sorted    = sort(["b", "a"])
  element   = element(local.list, 4)
  maxed     = max(1, 5, 3)
}
resource "test_each" "e" {
  for_each = { one = 1, two = 2 }
  name     = each.key
  number   = each.value
}
resource "test_count" "c" {
  count = 2
  index = count.index
  dynamic "rule" {
    for_each = [10, 20]
    content {
      port = rule.value
    }
  }
}
module "m" {
  source = "./mod"
  flag   = true
}
resource "test_thing" "from_module" {
  name = module.m.name
}
"""
MODULE = """\
variable "flag" { default = false }
variable "size" {
  type    = number
  default = "5"
}
resource "test_inner" "i" {
  count = var.flag ? 1 : 0
  size  = var.size
}
output "name" { value = "inner-${var.size}" }
"""


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def config(folder, *, root=None):
    """The one configuration of a folder."""
    inventory = load_inventory([folder])
    assert inventory.problems == []
    [found] = [item for item in inventory.terraform if root is None or item.root.endswith(root)]
    return found


def block(found, address):
    return next(item for item in found.blocks if item.address == address)


def value_of(folder, expression, *, before=""):
    """Value of one expression."""
    write(folder, {"main.tf": f'{before}\nresource "t" "t" {{\n  v = {expression}\n}}\n'})
    return block(config(folder), "t.t").get("v")


def test_known_values_agree_with_tfparse(tmp_path):
    """On everything known, our evaluation and tfparse's are the same."""
    tfparse = pytest.importorskip("tfparse")
    write(tmp_path, {"main.tf": FUNCTIONS, "mod/main.tf": MODULE})
    theirs = {}
    for kind, items in tfparse.load_from_path(str(tmp_path)).items():
        if kind.startswith("test_"):
            for item in items:
                address = item["__tfmeta"]["path"]
                assert address not in theirs
                theirs[address] = {key: plain(value) for key, value in item.items() if key not in IGNORED}
    ours = {}
    for item in config(tmp_path).blocks:
        if item.kind == "resource":
            ours[item.address] = {key: plain(value) for key, value in item.body.items() if key not in IGNORED}
    assert ours == theirs


IGNORED = {"__tfmeta", "id", "count", "for_each"}


def plain(value):
    """Bring both forms together: tfparse gives a single nested block as a mapping, and sets as lists in any order."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key not in {"__tfmeta", "id"}} or value
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def test_null_and_unknown_are_different(tmp_path):
    """Written null is None, what nobody can know is Unresolved with a reason, and what is not there is ABSENT."""
    write(tmp_path, {"main.tf": 'variable "v" {}\nresource "t" "t" {\n  a = null\n  b = var.v\n}\n'})
    found = block(config(tmp_path), "t.t")
    assert found.get("a") is None
    assert found.get("b") == Unresolved("variable v has no default and no tfvars file sets it", "var.v")
    assert found.get("c") is ABSENT


def test_an_object_keeps_what_is_known(tmp_path):
    """One unknown value does not swallow its neighbours."""
    value = value_of(tmp_path, "{ a = 1, b = var.v, c = [var.v, 2] }", before='variable "v" {}')
    assert value["a"] == 1
    assert isinstance(value["b"], Unresolved)
    assert value["c"][1] == 2


def test_policy_with_account_id_keeps_its_text(tmp_path):
    """Jsonencode and aws_iam_policy_document with the account id keep every statement."""
    value = value_of(
        tmp_path,
        'jsonencode({ Statement = [{ Effect = "Deny", Resource = "arn:aws:iam::${data.aws_caller_identity.me.account_id}:x" }] })',
        before='data "aws_caller_identity" "me" {}',
    )
    assert isinstance(value, Unresolved)
    statement = json.loads(value.text)["Statement"][0]
    assert statement["Resource"] == "arn:aws:iam::${data.aws_caller_identity.me.account_id}:x"


def test_references_to_the_same_thing_are_equal(tmp_path):
    """Two unknown values with one reference compare equal, across locals."""
    before = 'resource "aws_security_group" "n" {}\nlocals { id = aws_security_group.n.id }'
    assert value_of(tmp_path, "local.id == aws_security_group.n.id", before=before) is True


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("var.v && false", False),
        ("true || var.v", True),
        ('var.v ? "same" : "same"', "same"),
        ("anytrue([var.v, true])", True),
        ("contains([var.v, 1], 1)", True),
    ],
)
def test_one_known_side_can_decide(tmp_path, expression, expected):
    """An unknown operand does not make a decided result unknown."""
    assert value_of(tmp_path, expression, before='variable "v" {}') == expected


@pytest.mark.parametrize(
    "expression",
    [
        "timestamp()",
        "uuid()",
        'file("/etc/hostname")',
        'file("../secret.txt")',
        'regex("(a+)+$", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab")',
        "nosuch(1)",
        "range(100000000)",
        "1 / 0",
    ],
)
def test_what_must_not_be_evaluated_is_unresolved(tmp_path, expression):
    """Time, chance, files outside, runaway patterns, bombs and errors end as Unresolved, at once."""
    (tmp_path.parent / "secret.txt").write_text("secret")
    assert isinstance(value_of(tmp_path, expression), Unresolved)


def test_exponential_text_is_cut(tmp_path):
    """A chain of doublings does not fill the memory."""
    chain = "\n".join(f'  a{n} = "${{local.a{n - 1}}}${{local.a{n - 1}}}"' for n in range(1, 60))
    value = value_of(tmp_path, "local.a59", before=f'locals {{\n  a0 = "xxxxxxxxxx"\n{chain}\n}}')
    assert isinstance(value, Unresolved)


def test_files_inside_the_tree_are_read(tmp_path):
    """`file("${path.module}/x")` reads what lies beside the configuration."""
    write(tmp_path, {"policy.txt": "hello"})
    assert value_of(tmp_path, 'file("${path.module}/policy.txt")') == "hello"


def test_variables_come_from_default_then_tfvars(tmp_path):
    """terraform.tfvars and *.auto.tfvars are applied; a text is converted to the declared type; the place is known."""
    write(
        tmp_path,
        {
            "main.tf": 'variable "on" {\n  type = bool\n  default = true\n}\nresource "t" "t" {\n  v = var.on\n}\n',
            "terraform.tfvars": 'on = "false"\n',
        },
    )
    found = config(tmp_path)
    assert found.variables["on"].value is False
    assert found.variables["on"].source.endswith("terraform.tfvars")
    assert block(found, "t.t").get("v") is False


def test_each_var_file_is_a_configuration_of_its_own(tmp_path):
    """Tfvars that Terraform does not load by itself give one more configuration each."""
    write(
        tmp_path,
        {
            "main.tf": 'variable "on" { default = true }\nresource "t" "t" {\n  v = var.on\n}\n',
            "envs/prod.tfvars": "on = false\n",
            "envs/other.tfvars": "unrelated = 1\n",
        },
    )
    found = load_inventory([tmp_path]).terraform
    assert [(item.var_file.rpartition("/")[2], item.variables["on"].value) for item in found] == [
        ("", True),
        ("prod.tfvars", False),
    ]


def test_optional_attributes_get_their_defaults(tmp_path):
    """`optional(type, default)` fills what the value leaves out."""
    before = (
        'variable "n" {\n  type = object({ a = optional(number, 5), b = optional(string), c = bool })\n'
        '  default = { c = "true" }\n}'
    )
    assert value_of(tmp_path, "var.n", before=before) == {"a": 5, "b": None, "c": True}


def test_a_module_that_is_not_at_hand_keeps_its_call(tmp_path):
    """The arguments of a registry module are evaluated, with lines; its outputs are unresolved references."""
    write(
        tmp_path,
        {
            "main.tf": 'module "eks" {\n  source  = "terraform-aws-modules/eks/aws"\n  version = "~> 21.0"\n'
            '  groups = {\n    gpu = {\n      disk_size = 100\n    }\n  }\n}\nresource "t" "t" {\n  v = module.eks.id\n}\n'
        },
    )
    found = config(tmp_path)
    [call] = found.find("module", "terraform-aws-modules/eks/aws")
    assert call.get("groups", "gpu", "disk_size") == 100
    assert call.place("groups", "gpu", "disk_size").line == 6
    assert block(found, "t.t").get("v").ref == "module.eks.id"


def test_unknown_count_and_for_each_give_one_block(tmp_path):
    """Where the number of instances is not known, the block is still seen once."""
    write(
        tmp_path,
        {
            "main.tf": 'variable "v" {}\nresource "t" "a" {\n  count = var.v\n}\nresource "t" "b" {\n  for_each = var.v\n}\n'
        },
    )
    assert [item.address for item in config(tmp_path).blocks] == ["t.a[*]", 't.b["*"]']


def test_json_syntax_is_read_like_the_native_one(tmp_path):
    """`*.tf.json` gives the same blocks, with interpolation."""
    write(
        tmp_path,
        {
            "main.tf.json": json.dumps(
                {"variable": {"n": {"default": "x"}}, "resource": {"t": {"t": {"v": "a-${var.n}"}}}}, indent=2
            )
        },
    )
    assert block(config(tmp_path), "t.t").get("v") == "a-x"


def test_plan_json(tmp_path):
    """A plan gives its changes with actions; unknown and sensitive values are unresolved."""
    change = {
        "address": "aws_x.y",
        "mode": "managed",
        "type": "aws_x",
        "name": "y",
        "change": {
            "actions": ["update"],
            "after": {"size": 5, "secret": "s3cr3t", "id": None},
            "after_unknown": {"id": True},
            "after_sensitive": {"secret": True},
        },
    }
    (tmp_path / "plan.json").write_text(json.dumps({"format_version": "1.2", "resource_changes": [change]}, indent=2))
    found = config(tmp_path)
    [item] = found.blocks
    assert found.is_plan
    assert item.get("size") == 5
    assert item.get("change_actions") == ["update"]
    assert isinstance(item.get("id"), Unresolved)
    assert isinstance(item.get("secret"), Unresolved)
    assert "s3cr3t" not in str(item.body)
    assert item.place().line > 1


def test_nothing_of_the_input_runs(tmp_path, monkeypatch):
    """External data sources and local-exec provisioners start no process, and nothing opens a connection."""
    marker = tmp_path / "ran"
    write(
        tmp_path / "tf",
        {
            "main.tf": f'data "external" "e" {{\n  program = ["touch", "{marker}"]\n}}\n'
            f'resource "terraform_data" "d" {{\n  provisioner "local-exec" {{\n    command = "touch {marker}"\n  }}\n}}\n'
            'module "far" {\n  source = "git::https://example.invalid/x.git"\n}\n'
        },
    )

    def refuse(*words, **_options):
        raise AssertionError(f"audit started a process or opened a connection: {words}")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr("os.posix_spawn", refuse)
    monkeypatch.setattr("os.fork", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)
    found = config(tmp_path / "tf")
    assert {item.kind for item in found.blocks} == {"data", "resource", "module"}
    assert not marker.exists()


def test_locals_that_need_each_other_are_reported(tmp_path):
    """Terraform refuses them, used or not: file, line, and the way round; everything else is audited."""
    write(
        tmp_path,
        {
            "a.tf": "locals {\n  x = local.y\n  free = 1\n}\n",
            "b.tf": "locals {\n  y = [local.z]\n  z = upper(local.x)\n  own = local.own\n}\n",
            "c.tf": 'resource "test_thing" "a" {\n  v = local.free\n  w = local.z\n}\n',
        },
    )
    found = load_inventory([tmp_path])
    problems = {problem.message.rpartition("refuses: ")[2]: problem for problem in found.problems}
    assert set(problems) == {"local.x -> local.y -> local.z -> local.x", "local.own -> local.own"}
    assert (problems["local.own -> local.own"].path.rpartition("/")[2], problems["local.own -> local.own"].line) == (
        "b.tf",
        4,
    )
    body = block(found.terraform[0], "test_thing.a").body
    assert body["v"] == 1
    assert isinstance(body["w"], Unresolved)


def test_way_round_through_a_module_may_be_none(tmp_path):
    """One output of a module may feed an input on which another output rests."""
    write(
        tmp_path,
        {
            "main.tf": 'module "m" {\n  source = "./m"\n  in = local.a\n}\nlocals {\n  a = module.m.fixed\n}\n',
            "m/main.tf": 'variable "in" {}\noutput "fixed" {\n  value = 1\n}\noutput "fed" {\n  value = var.in\n}\n',
        },
    )
    assert load_inventory([tmp_path]).problems == []
