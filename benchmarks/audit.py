"""Times the audit on a Terraform tree of 50,000 lines and on 5,000 manifests; beside checkov where it is installed.

    python benchmarks/audit.py [--folder DIR] [--checkov PROGRAM] [--output FILE]

The trees are made here, the same each time: roots that call a local module with count, for_each, dynamic blocks and
policies, and multi-document manifests of eight kinds. Each program runs in a process of its own, once to warm the file
cache and then three times; the median and the largest memory count.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = """\
variable "environment" {
  type    = string
  default = "env-%(n)d"
}

variable "rules" {
  type = map(object({ port = number, cidr = optional(string, "10.0.0.0/8") }))
  default = {
    ssh   = { port = 22 }
    https = { port = 443, cidr = "10.%(n)d.0.0/16" }
  }
}

locals {
  name = "svc-%(n)d-${var.environment}"
  tags = merge({ Name = local.name }, { for key, rule in var.rules : key => tostring(rule.port) })
}

data "aws_caller_identity" "me" {}

data "aws_iam_policy_document" "app" {
  statement {
    sid       = "Read%(n)d"
    actions   = ["s3:GetObject", "s3:ListBucket"]
    resources = ["arn:aws:s3:::bucket-%(n)d/*"]
    condition {
      test     = "StringEquals"
      variable = "aws:PrincipalAccount"
      values   = [data.aws_caller_identity.me.account_id]
    }
  }
}

resource "aws_iam_role" "app" {
  name               = local.name
  assume_role_policy = "{}"
  tags               = local.tags
}

resource "aws_iam_role_policy" "app" {
  role   = aws_iam_role.app.name
  policy = data.aws_iam_policy_document.app.json
}

resource "aws_security_group" "app" {
  count       = 2
  name        = "${local.name}-${count.index}"
  description = "group ${count.index} of ${local.name}"
  tags        = local.tags

  dynamic "ingress" {
    for_each = var.rules
    content {
      description = ingress.key
      protocol    = "tcp"
      from_port   = ingress.value.port
      to_port     = ingress.value.port
      cidr_blocks = [ingress.value.cidr]
    }
  }

  egress {
    protocol    = "-1"
    from_port   = 0
    to_port     = 0
    cidr_blocks = ["0.0.0.0/0"]
  }
}

module "eks" {
  source  = "terraform-aws-modules/eks/aws"
  version = "~> 21.0"

  name               = local.name
  kubernetes_version = "1.33"

  node_security_group_enable_recommended_rules = %(toggle)s

  addons = {
    vpc-cni                   = { before_compute = true }
    eks-node-monitoring-agent = {}
  }

  eks_managed_node_groups = {
    for size in ["a", "b"] : "gpu-${size}" => {
      ami_type       = "AL2023_x86_64_NVIDIA"
      instance_types = ["g5.xlarge"]
      min_size       = 1
      max_size       = 2
      desired_size   = 2
      block_device_mappings = {
        root = { device_name = "/dev/xvda", ebs = { volume_size = 200 } }
      }
      node_repair_config = { enabled = true }
    }
  }
}

module "bucket" {
  source   = "../modules/bucket"
  for_each = toset(["data", "logs"])
  name     = "${local.name}-${each.key}"
  days     = each.key == "logs" ? 30 : 365
}
"""
MODULE = """\
variable "name" { type = string }
variable "days" { type = number }
resource "aws_s3_bucket" "this" {
  bucket = lower(var.name)
}
resource "aws_s3_bucket_lifecycle_configuration" "this" {
  bucket = aws_s3_bucket.this.id
  rule {
    id     = "expire"
    status = "Enabled"
    expiration {
      days = var.days
    }
  }
}
output "arn" { value = aws_s3_bucket.this.arn }
"""
MANIFEST = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: app-%(n)d
  namespace: team-%(team)d
  labels: {app: app-%(n)d, tier: backend}
spec:
  replicas: 2
  selector:
    matchLabels: {app: app-%(n)d}
  template:
    metadata:
      labels: {app: app-%(n)d}
    spec:
      enableServiceLinks: false
      terminationGracePeriodSeconds: 60
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: server
          image: vllm/vllm-openai:v0.11.0
          args: [--model=Qwen/Qwen2.5-7B-Instruct, --max-model-len=8192]
          ports:
            - {name: http, containerPort: 8000}
          env:
            - name: TOKEN
              valueFrom:
                secretKeyRef: {name: hub, key: token}
            - {name: NCCL_DEBUG, value: INFO}
          readinessProbe:
            httpGet: {path: /health, port: http}
          resources:
            requests: {cpu: "3", memory: 14Gi, nvidia.com/gpu: 1}
            limits: {memory: 14Gi, nvidia.com/gpu: 1}
          volumeMounts:
            - {name: shm, mountPath: /dev/shm}
      volumes:
        - name: shm
          emptyDir: {medium: Memory, sizeLimit: 2Gi}
"""
OTHERS = (
    """\
apiVersion: v1
kind: Service
metadata: {name: app-%(n)d, namespace: team-%(team)d}
spec:
  selector: {app: app-%(n)d}
  ports:
    - {port: 80, targetPort: http}
""",
    """\
apiVersion: v1
kind: ConfigMap
metadata: {name: app-%(n)d}
data:
  settings.yaml: |
    a: 1
    b: [1, 2, 3]
""",
    """\
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: app-%(n)d}
spec:
  groups:
    - name: app-%(n)d
      rules:
        - alert: App%(n)dDown
          expr: up{job="app-%(n)d"} == 0
          for: 30s
          labels: {severity: page}
""",
    """\
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: app-%(n)d}
spec:
  podSelector: {matchLabels: {app: web-%(n)d}}
  policyTypes: [Ingress]
  ingress:
    - from: [{podSelector: {}}]
""",
)


def make_terraform(folder: Path, lines: int) -> int:
    """Write roots until there are so many lines; return their number."""
    (folder / "modules" / "bucket").mkdir(parents=True)
    (folder / "modules" / "bucket" / "main.tf").write_text(MODULE)
    written, number = MODULE.count("\n"), 0
    while written < lines:
        text = ROOT % {"n": number % 250, "toggle": "false" if number % 50 == 0 else "true"}
        root = folder / f"root-{number:04}"
        root.mkdir()
        (root / "main.tf").write_text(text)
        written += text.count("\n")
        number += 1
    return written


def make_manifests(folder: Path, count: int) -> int:
    """Write so many objects, ten to a file; return the number of lines."""
    folder.mkdir()
    lines = 0
    for first in range(0, count, 10):
        documents = []
        for number in range(first, first + 10):
            form = MANIFEST if number % 2 == 0 else OTHERS[number // 2 % len(OTHERS)]
            documents.append(form % {"n": number, "team": number % 20})
        text = "---\n".join(documents)
        (folder / f"app-{first:05}.yaml").write_text(text)
        lines += text.count("\n")
    return lines


def check_once(command: list[str]) -> int:
    """Run a command that prints JSON and return its exit status; it also warms the file cache.

    Findings are no failure. But exit 1 is also Python's own way to fail, so the answer must be there as well.
    """
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError as error:
        raise SystemExit(f"{command[0]}: cannot be started: {error.strerror}") from error
    try:
        json.loads(done.stdout)
        answered = True
    except ValueError:
        answered = False
    if done.returncode not in (0, 1, 3) or not answered:
        said = "\n".join(done.stderr.decode(errors="replace").splitlines()[-5:])
        raise SystemExit(f"not measured: {' '.join(command)}\nended with exit status {done.returncode}: {said}")
    return done.returncode


def measure(command: list[str], runs: int) -> dict[str, float]:
    """Run a command; return median seconds (of the clock, and of processors) and the largest memory in MiB."""
    expected = check_once(command)
    seconds: list[float] = []
    busy: list[float] = []
    peak = 0.0
    for _ in range(runs):
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != expected:
            raise SystemExit(f"not measured: {' '.join(command)}\nended with exit status {process.returncode}")
        seconds.append(time.perf_counter() - start)
        busy.append(usage.ru_utime + usage.ru_stime)
        peak = max(peak, usage.ru_maxrss / 1024)
    return {
        "seconds": round(statistics.median(seconds), 2),
        "cpu_seconds": round(statistics.median(busy), 2),
        "peak_mib": round(peak),
    }


def main() -> None:
    """Make the trees, time the programs, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--checkov", help="the program of checkov, from an environment of its own")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--lines", type=int, default=50_000)
    parser.add_argument("--manifests", type=int, default=5_000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    if options.folder and not options.folder.is_dir():
        parser.error(f"--folder {options.folder}: there is no such folder; make it first")
    if min(options.runs, options.lines, options.manifests) < 1:
        parser.error("--runs, --lines and --manifests count from 1")
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        base = Path(temporary)
        sizes = {
            "terraform": make_terraform(base / "terraform", options.lines),
            "manifests": make_manifests(base / "manifests", options.manifests),
        }
        results = []
        for name, lines in sizes.items():
            own = [sys.executable, "-m", "firstfault", "audit", str(base / name), "--format", "json"]
            results.append({"program": "firstfault", "tree": name, "lines": lines} | measure(own, options.runs))
            if options.checkov:
                framework = "terraform" if name == "terraform" else "kubernetes"
                other = [options.checkov, "-d", str(base / name), "--framework", framework, "-o", "json"]
                results.append({"program": "checkov", "tree": name, "lines": lines} | measure(other, 1))
    record = {
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "results": results,
    }
    for row in results:
        print(
            f"{row['program']:<11} {row['tree']:<10} {row['lines']:>7} lines"
            f" {row['seconds']:>8.2f} s {row['cpu_seconds']:>8.2f} s of CPU {row['peak_mib']:>6} MiB"
        )
    if options.output:
        options.output.write_text(json.dumps(record, indent=2) + "\n")


if __name__ == "__main__":
    main()
