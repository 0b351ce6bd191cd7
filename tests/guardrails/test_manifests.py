"""What is rendered is what the programs that read it accept: Kubernetes, its add-ons, kustomize, Alertmanager, Grafana."""

from __future__ import annotations

import importlib
import itertools
import json
import re
import shutil
import subprocess

import kubernetes_validate
import promql_parser
import pytest
import yaml

from firstfault.guardrails import FEATURES, Options, apply_tree, guardrail_ids, render
from firstfault.guardrails.options import KUBERNETES_VERSIONS
from firstfault.guardrails.registry import LIBRARY_DIR

KUBECTL = shutil.which("kubectl")
AMTOOL = shutil.which("amtool")
# Karpenter changes rules and adds no component; the other one only adds a kind that the schema tests cover.
WITH_COMPONENTS = sorted(FEATURES.keys() - {"karpenter", "mutating-admission-policy"})
SETS = [
    frozenset(chosen)
    for size in range(len(WITH_COMPONENTS) + 1)
    for chosen in itertools.combinations(WITH_COMPONENTS, size)
    if not {"argocd", "flux"} <= set(chosen)
]
# Kinds whose schemas a package ships. What is neither here nor in Kubernetes itself is in docs/guard.md as not validated.
CUSTOM = {
    ("kyverno.io/v1", "ClusterPolicy"): "cloudcoil.models.kyverno.v1",
    ("monitoring.coreos.com/v1", "PrometheusRule"): "cloudcoil.models.prometheus_operator.v1",
    ("monitoring.coreos.com/v1", "PodMonitor"): "cloudcoil.models.prometheus_operator.v1",
    ("source.toolkit.fluxcd.io/v1", "GitRepository"): "cloudcoil.models.fluxcd.source.v1",
    ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"): "cloudcoil.models.fluxcd.kustomize.v1",
}
NOT_VALIDATED = {
    ("argoproj.io/v1alpha1", "Application"),
    ("karpenter.sh/v1", "NodePool"),
    ("karpenter.k8s.aws/v1", "EC2NodeClass"),
    ("eks.amazonaws.com/v1", "NodeClass"),
}
FULL = frozenset({"kyverno", "prometheus-operator", "karpenter", "argocd", "gpu-operator"})


def options(features=FULL, **more):
    return Options(features=frozenset(features), git_repo="https://git.example.com/gpu.git", **more)


def manifests(built):
    """Every Kubernetes object of a tree, with the path it stands in."""
    for path, text in built.files.items():
        folder = path.split("/")[0]
        if folder in ("components", "karpenter", "gitops") and not path.endswith("kustomization.yaml"):
            yield from ((path, document) for document in yaml.safe_load_all(text) if document)


def every_tree():
    for profile in ("eks-managed", "eks-auto", "self-managed"):
        for mode in ("audit", "enforce"):
            for features in (
                {"kyverno", "prometheus-operator", "karpenter", "argocd", "gpu-operator"},
                {"flux", "karpenter", "gpu-operator"},
                set(),
            ):
                fits = features - {"gpu-operator"} if profile == "eks-auto" else features
                yield options(
                    fits, profile=profile, mode=mode, kubernetes="1.36", instance_types=("p5.48xlarge", "g5.xlarge")
                )


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
def test_core_kinds_validate_against_the_schemas_of_each_version(version):
    """Strictly: an unknown field is an error."""
    seen = set()
    for mode, features in itertools.product(
        ("audit", "enforce"), ({"gpu-operator", "mutating-admission-policy"}, FULL)
    ):
        for path, document in manifests(render(options(features, mode=mode, kubernetes=version))):
            key = document["apiVersion"], document["kind"]
            if key in CUSTOM or key in NOT_VALIDATED:
                continue
            kubernetes_validate.validate(document, version, strict=True)
            seen.add(document["kind"])
            assert path
    assert {"CronJob", "DaemonSet", "ClusterRole", "ValidatingAdmissionPolicy"} <= seen
    assert ("MutatingAdmissionPolicy" in seen) is (version >= "1.34")


@pytest.mark.parametrize("tree", list(every_tree()), ids=lambda o: f"{o.profile}-{o.mode}-{len(o.features)}")
def test_custom_resources_validate_against_their_definitions(tree):
    """And every kind is either validated or listed as not validated."""
    for path, document in manifests(render(tree)):
        key = document["apiVersion"], document["kind"]
        if key in NOT_VALIDATED or "." not in key[0].split("/")[0] or key[0].split("/")[0].endswith("k8s.io"):
            continue
        assert key in CUSTOM, f"{path}: {key} is neither validated nor listed"
        model = getattr(importlib.import_module(CUSTOM[key]), document["kind"])
        parsed = model.model_validate(document)
        kept = json.loads(parsed.model_dump_json(by_alias=True, exclude_unset=True))
        assert lost(document, kept) == [], path


def lost(given, kept, where=""):
    """Fields that the definition does not know are dropped by the model: find them."""
    if isinstance(given, dict) and isinstance(kept, dict):
        return [
            found
            for key, value in given.items()
            for found in ([f"{where}.{key}"] if key not in kept else lost(value, kept[key], f"{where}.{key}"))
        ]
    if isinstance(given, list) and isinstance(kept, list):
        return [
            found for n, (a, b) in enumerate(zip(given, kept, strict=True)) for found in lost(a, b, f"{where}[{n}]")
        ]
    return []


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
@pytest.mark.parametrize("features", SETS, ids=lambda s: "+".join(sorted(s)) or "none")
def test_kustomize_builds_every_combination(features, tmp_path):
    """The root builds, and each object is there once."""
    built = render(options(features))
    apply_tree(tmp_path, built.files)

    done = subprocess.run([KUBECTL, "kustomize", tmp_path], capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 0, done.stderr
    objects = [document for document in yaml.safe_load_all(done.stdout) if document]
    names = [(o["apiVersion"], o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects]
    assert len(names) == len(set(names))
    assert objects[0]["kind"] == "Namespace"
    expected = sum(1 for path, _ in manifests(built) if path.startswith("components/"))
    assert len(objects) == expected


@pytest.mark.parametrize("tree", list(every_tree()), ids=lambda o: f"{o.profile}-{o.mode}-{len(o.features)}")
def test_every_file_says_which_item_it_serves(tree):
    """In a comment, or in the file itself where it has none."""
    for path, text in render(tree).files.items():
        if path.endswith("kustomization.yaml"):
            continue  # a list of the files beside it
        assert re.search(r"(?<![A-Za-z0-9])[BC]\d{1,2}(?!\d)", text), path


@pytest.mark.prometheus
@pytest.mark.skipif(AMTOOL is None, reason="amtool is not installed (Debian package prometheus-alertmanager)")
def test_alertmanager_accepts_its_configuration_and_routes_by_severity(tmp_path):
    """Amtool check-config, and three alerts on their way."""
    path = tmp_path / "alertmanager.yaml"
    path.write_text(render(options()).files["prometheus/alertmanager.yaml"])

    def route(*labels):
        command = [AMTOOL, "config", "routes", "test", f"--config.file={path}", *labels]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    checked = subprocess.run([AMTOOL, "check-config", path], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert route("alertname=FirstFaultWatchdog", "guardrail=sensors", "severity=none") == "dead-man"
    assert route("alertname=FirstFaultGPULost", "guardrail=gpu-lost", "severity=critical") == "pager"
    assert route("alertname=FirstFaultXIDProgram", "guardrail=xid", "severity=warning") == "chat"
    assert route("alertname=Other", "severity=critical") == "chat"


def test_the_dashboard_asks_only_what_can_be_parsed():
    """Every query is PromQL, and ids and places are unique."""
    page = json.loads(render(options()).files["grafana/firstfault.json"])

    for panel in page["panels"]:
        for target in panel["targets"]:
            promql_parser.parse(target["expr"])
    assert len({panel["id"] for panel in page["panels"]}) == len(page["panels"])
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in page["panels"]}) == len(page["panels"])


@pytest.mark.parametrize(
    ("line", "reasons"),
    [
        ("NVRM: Xid (PCI:0000:00:1e): 79, pid=1234, name=python, GPU has fallen off the bus.", {"GPUXIDIsolate", "XIDIsolate", "GPUFallenOffBus", "FallenOffBus"}),
        ("NVRM: Xid (PCI:0000:00:1e): 48", {"GPUXIDIsolate", "XIDIsolate"}),
        ("NVRM: Xid (0000:00:1e): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error", {"GPUXIDIsolate", "XIDIsolate"}),
        ("NVRM: Xid (PCI:0000:00:06): 31, pid=651, name=bad, channel 0x0000000a, intr 00000000. MMU Fault", {"GPUXIDProgram"}),
        ("NVRM: GPU 0000:00:1e.0: GPU has fallen off the bus.", {"GPUFallenOffBus", "FallenOffBus"}),
        ("NVRM: fallen off the bus and is not responding to commands.", {"GPUFallenOffBus", "FallenOffBus"}),
        ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 36 sourcetrack timeout", {"NVSwitchSXID"}),
        ("nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error", set()),
        ("NVRM: Xid (PCI:0000:00:1e): 45, pid=1, name=python, Ch 00000008", set()),
        ("NVRM: Xid (PCI:0000:00:1e): 748, pid=1", set()),
    ],
)  # fmt: skip
def test_kernel_lines_reach_their_reason(line, reasons):
    """The patterns must reach to the end of the line, as node-problem-detector demands."""
    built = render(options(frozenset()))
    objects = [d for path, d in manifests(built) if path.endswith("node-problem-detector.yaml")]
    config = json.loads(next(o for o in objects if o["kind"] == "ConfigMap")["data"]["gpu-monitor.json"])

    assert {rule["reason"] for rule in config["rules"] if re.search(rule["pattern"] + r"\Z", line)} == reasons


def test_only_what_the_cluster_has_is_rendered():
    """No custom resource without its add-on, no AWS file outside of AWS, no driver on Auto Mode."""
    bare = render(Options(profile="self-managed"))
    assert {d["apiVersion"].split("/")[0] for _, d in manifests(bare)} <= {
        "v1", "apps", "batch", "rbac.authorization.k8s.io", "admissionregistration.k8s.io",
    }  # fmt: skip
    assert not any(path.startswith("terraform/") for path in bare.files)

    auto = render(Options(profile="eks-auto"))
    assert "helm-values/gpu-operator-auto-mode.yaml" in auto.files
    assert not any("device-plugin" in path for path in auto.files)
    assert "eks.amazonaws.com/instance-gpu-manufacturer" in auto.files["components/smoke/smoke.yaml"]
    assert (
        'label_eks_amazonaws_com_instance_gpu_manufacturer="nvidia"'
        in auto.files["prometheus/rules/gpu-allocatable.yaml"]
    )


def test_without_a_repository_the_gitops_object_is_no_component():
    """Applying a placeholder would break the controller's view."""
    files = render(Options(features=frozenset({"argocd", "gpu-operator"}))).files

    assert "gitops/argocd.yaml" in files
    assert not any(path.startswith("components/gitops") for path in files)


def test_every_guardrail_is_in_some_tree():
    """A condition that never holds would hide it."""
    rendered = {g.id for tree in every_tree() for g in render(tree).guardrails}

    assert rendered == set(guardrail_ids())


def test_every_file_of_the_library_is_used():
    """No template is left over."""
    for folder in LIBRARY_DIR.iterdir():
        if folder.is_dir():
            data = yaml.safe_load(re.sub(r"<<\w+>>", "1", (folder / "guardrail.yaml").read_text()))
            known = {"guardrail.yaml", "test.yaml"} | {item["file"] for item in data.get("files", [])}
            known |= {
                "admission": {"policy.yaml"},
                "dashboard": {"panels.yaml"},
                "gitops": {"argocd.yaml", "flux.yaml"},
            }.get((data.get("builders") or [""])[0], set())
            assert {path.name for path in folder.iterdir()} <= known, folder.name
