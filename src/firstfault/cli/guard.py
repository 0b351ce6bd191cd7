"""`firstfault guard`: render guardrails, tell how soon they notice, and lock what training needs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import msgspec

from firstfault.cli.output import TargetPath, complain, write_output
from firstfault.errors import ExitCode, UsageError

__all__ = ["guard"]

# As in firstfault.guardrails.FEATURES, which --help does not import; a test compares them.
_FEATURES = (
    "What the cluster has, comma-separated: kyverno, prometheus-operator, karpenter, argocd, flux, gpu-operator, "
    "mutating-admission-policy."
)
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "": 1.0}


class _Duration(click.ParamType[float]):
    """Seconds: 30, 30s, 500ms, 5m, 1h."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return seconds."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|)", str(value))
        if not match:
            self.fail(f"{value!r} is not a duration: give it as 30s, 5m or 1h", param, ctx)
        return float(match[1]) * _UNITS[match[2]]


class _List(click.ParamType[tuple[str, ...]]):
    """Comma-separated names."""

    name = "list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:  # noqa: ARG002
        """Return the names."""
        if isinstance(value, tuple):
            return value
        return tuple(part.strip() for part in str(value).split(",") if part.strip())


@click.group()
def guard() -> None:
    """Render what would have noticed it, and tell how soon it does.

    \b
      firstfault guard render --out guard/    then read guard/README.md
      firstfault guard budget                 how soon is each fault noticed?
      terraform show -json plan | firstfault guard lock -
    """  # noqa: D301 - click's mark for lines that stay as they are


def _cluster_options(command: Any) -> Any:
    """Add the options that describe a cluster and its intervals."""
    options = [
        click.option(
            "--profile", default="eks-managed", show_default=True, help="eks-managed, eks-auto or self-managed."
        ),
        click.option("--kubernetes-version", default="1.33", show_default=True, help="Version of the API server."),
        click.option("--with", "features", type=_List(), default=(), help=_FEATURES),
        click.option(
            "--instance-types", type=_List(), default=(), help="GPU instance types, comma-separated, e.g. p5.48xlarge."
        ),
        click.option(
            "--mode",
            default="audit",
            show_default=True,
            type=click.Choice(["audit", "enforce"]),
            help="Whether admission policies report, or refuse.",
        ),
        click.option(
            "--only",
            type=_List(),
            default=None,
            help="Only these guardrails: ids or checklist items (B4, C2), comma-separated.",
        ),
        click.option("--gpu-node-label", default=None, metavar="KEY=VALUE", help="Label that every GPU node carries."),
        click.option(
            "--smoke-period",
            type=_Duration(),
            default="30m",
            show_default=True,
            help="How often the NCCL smoke test runs.",
        ),
        click.option("--evaluation", type=_Duration(), default=None, help="Evaluation interval of the rules."),
        click.option("--group-wait", type=_Duration(), default=None, help="Alertmanager's group_wait."),
        click.option("--group-interval", type=_Duration(), default=None, help="Alertmanager's group_interval."),
        click.option(
            "--scrape",
            multiple=True,
            metavar="SOURCE=DURATION",
            help="How often Prometheus asks an exporter, e.g. dcgm-exporter=15s; may be given several times.",
        ),
        click.option(
            "--collect",
            multiple=True,
            metavar="SOURCE=DURATION",
            help="How often the exporter itself looks, e.g. dcgm-exporter=30s.",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@guard.command(short_help="Write rules, policies and manifests for this cluster.")
@_cluster_options
@click.option(
    "--out",
    type=TargetPath(path_type=Path, file_okay=False),
    required=True,
    help="Folder to write into; made where it is not there.",
)
@click.option(
    "--from-audit",
    "audit",
    type=click.Path(path_type=Path),
    default=None,
    help="Render only what closes the findings of this report (`firstfault audit … --format json`).",
)
@click.option("--namespace", default="firstfault", show_default=True, help="Namespace of firstfault's own objects.")
@click.option("--cluster", default="CLUSTER", show_default=True, help="Name of the cluster, for Terraform and S3.")
@click.option("--evidence-bucket", default="EVIDENCE-BUCKET", show_default=True, help="S3 bucket for evidence.")
@click.option(
    "--smoke-image",
    default="registry.example.com/firstfault-smoke:0.1",
    show_default=True,
    help="Image of the NCCL smoke test.",
)
@click.option("--git-repo", default="", help="Git repository that holds the ClusterPolicy, for GitOps.")
@click.option("--git-path", default="./clusterpolicy", show_default=True, help="Folder of the ClusterPolicy in it.")
@click.option(
    "--terraform-role",
    default="terraform",
    show_default=True,
    help="IAM role that applies Terraform: it may go on changing security groups.",
)
@click.option(
    "--load-balancer-role",
    default="aws-load-balancer-controller",
    show_default=True,
    help="IAM role of the load-balancer controller.",
)
@click.option("--break-glass-role", default="break-glass", show_default=True, help="IAM role for emergencies.")
@click.option(
    "--node-role", default="*-eks-node-group-*", show_default=True, help="IAM role of the nodes; * and ? match."
)
@click.option(
    "--exclude-namespaces",
    type=_List(),
    default="kube-system,gpu-operator,kyverno",
    show_default=True,
    help="Namespaces that no admission policy touches.",
)
@click.option(
    "--iteration-slo",
    "iteration_slo_s",
    default="1.0",
    show_default=True,
    help="Seconds that an iteration of training may take.",
)
@click.option("--keep-edits", is_flag=True, help="Leave files that somebody changed.")
@click.option("--overwrite", is_flag=True, help="Replace files that somebody changed.")
@click.option("--dry-run", is_flag=True, help="Say what would change and write nothing.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--output", type=TargetPath(path_type=Path, dir_okay=False), default=None, help="Write the answer there.")
def render(
    out: Path,
    audit: Path | None,
    keep_edits: bool,
    overwrite: bool,
    dry_run: bool,
    format_: str,
    output: Path | None,
    only: Any,
    **cluster: Any,
) -> None:
    """Write rules, policies, manifests and Terraform for this cluster into a folder."""
    from firstfault.guardrails import apply_tree, plan_tree  # noqa: PLC0415
    from firstfault.guardrails import render as build  # noqa: PLC0415
    from firstfault.report.guard import render_report  # noqa: PLC0415

    if keep_edits and overwrite:
        raise UsageError("--keep-edits and --overwrite exclude each other", "give the one that is meant")
    options = _options(**cluster)
    for doubt in options.doubts():
        complain(doubt)
    built = build(options, list(only) if only is not None else None, audit)
    if dry_run:
        changes = plan_tree(out, built.files)
    else:
        changes = apply_tree(out, built.files, "keep" if keep_edits else "overwrite" if overwrite else "refuse")
    write_output(render_report(built, changes, out, format_, dry_run=dry_run), output)


@guard.command(short_help="Tell how soon each scenario is noticed, at the worst.")
@_cluster_options
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--output", type=TargetPath(path_type=Path, dir_okay=False), default=None, help="Write the answer there.")
def budget(format_: str, output: Path | None, only: Any, **cluster: Any) -> None:
    """Tell the worst-case detection latency of each scenario, path by path."""
    from firstfault.guardrails import budget as compute  # noqa: PLC0415
    from firstfault.guardrails import load_guardrails, select  # noqa: PLC0415
    from firstfault.report.guard import budget_report  # noqa: PLC0415

    options = _options(**cluster)
    for doubt in options.doubts():
        complain(doubt)
    chosen = load_guardrails(options)
    if only is not None:
        chosen = select(chosen, list(only))
    write_output(budget_report(compute(options, chosen), format_), output)


@guard.command(short_help="Refuse a plan that takes a rule away which training needs.")
@click.argument("plan", type=click.Path(path_type=Path, exists=False))
@click.option("--strict", is_flag=True, help="Refuse also what another security group still covers.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--output", type=TargetPath(path_type=Path, dir_okay=False), default=None, help="Write the answer there.")
def lock(plan: Path, strict: bool, format_: str, output: Path | None) -> int:
    """Refuse a Terraform plan that takes away a security-group rule which training needs.

    PLAN is the output of `terraform show -json PLANFILE`. Exit codes: 0 pass, 1 refused, 2 no plan, 3 could not tell.
    """
    from firstfault.guardrails import judge, read_plan  # noqa: PLC0415
    from firstfault.report.guard import lock_report  # noqa: PLC0415

    report = judge(read_plan(plan), strict=strict)
    write_output(lock_report(report, format_), output)
    return int({"pass": ExitCode.OK, "refuse": ExitCode.FINDING, "unknown": ExitCode.UNKNOWN}[report.result])


def _options(
    *,
    profile: str,
    kubernetes_version: str,
    features: tuple[str, ...],
    instance_types: tuple[str, ...],
    mode: str,
    gpu_node_label: str | None,
    smoke_period: float,
    evaluation: float | None,
    group_wait: float | None,
    group_interval: float | None,
    scrape: tuple[str, ...],
    collect: tuple[str, ...],
    **rest: Any,
) -> Any:
    """Turn the command line into `Options`."""
    from firstfault.guardrails import Intervals, Options  # noqa: PLC0415

    given = {"evaluation_s": evaluation, "group_wait_s": group_wait, "group_interval_s": group_interval}
    changed = {name: value for name, value in given.items() if value is not None}
    intervals = msgspec.structs.replace(Intervals(), **changed)
    for name, seconds in map(_pair, scrape):
        intervals = intervals.with_source(name, scrape_s=seconds)
    for name, seconds in map(_pair, collect):
        intervals = intervals.with_source(name, collect_s=seconds)
    return Options(
        profile=profile,  # type: ignore[arg-type]
        kubernetes=kubernetes_version,
        features=frozenset(features),
        instance_types=instance_types,
        mode=mode,  # type: ignore[arg-type]
        gpu_node_label=_label(gpu_node_label),
        smoke_period_s=int(smoke_period),
        intervals=intervals,
        **rest,
    )


def _pair(text: str) -> tuple[str, float]:
    name, sign, value = text.partition("=")
    if not sign:
        raise UsageError(f"{text!r} is not SOURCE=DURATION", "for example --scrape kube-state-metrics=30s")
    return name, _Duration().convert(value, None, None)


def _label(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise UsageError(f"{text!r} is not KEY=VALUE", "for example --gpu-node-label nvidia.com/gpu.present=true")
    return key, value
