"""The options of `firstfault drill … --world eks`, in one place for `plan` and `run`."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any, TypeVar

import click

from firstfault.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from firstfault.drills import EksOptions

__all__ = ["eks_options"]

F = TypeVar("F", bound="Callable[..., int]")
_UNITS = {"s": 1, "m": 60, "h": 3600, "": 1}
_OPTIONS = (
    click.option(
        "--injector",
        type=click.Choice(["terraform", "ec2", "networkpolicy"]),
        default="terraform",
        show_default=True,
        help="eks: how the fault is made.",
    ),
    click.option("--terraform-dir", default="", metavar="DIR", help="eks: root module of the cluster, initialised."),
    click.option("--var-file", "var_files", multiple=True, help="eks: variable file that DIR is planned with."),
    click.option("--group", "groups", multiple=True, metavar="NAME=SG-ID", help="eks: id of the node or aux group."),
    click.option("--namespace", "-n", default="default", help="eks: where the Pods run."),
    click.option("--context", default=None, help="eks: kubeconfig context."),
    click.option("--region", default=None, help="eks: AWS region."),
    click.option("--image", default=None, help="eks: container image with PyTorch."),
    click.option("--gpus", type=int, default=1, help="eks: GPUs per Pod; 0 for a drill without.", show_default=True),
    click.option("--node-selector", "selector", multiple=True, metavar="KEY=VALUE", help="eks: nodes for the Pods."),
    click.option("--accept", multiple=True, metavar="NAMESPACE", help="eks: its Pods may be cut as well."),
    click.option("--max-duration", default="0", metavar="TIME", help="eks: e.g. 15m; the fault is gone by then."),
)


def eks_options(function: F) -> F:
    """Give a command the cluster's options; it gets them as one argument `eks`: None for another world."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> int:
        names = [
            "injector", "terraform_dir", "var_files", "groups", "namespace", "context", "region", "image", "gpus",
            "selector", "accept", "max_duration",
        ]  # fmt: skip
        given = {name: kwargs.pop(name) for name in names}
        if kwargs["world"] != "eks":
            _refuse_stray(click.get_current_context(), names)
        kwargs["eks"] = _read(given) if kwargs["world"] == "eks" else None
        return function(*args, **kwargs)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


def _refuse_stray(context: click.Context, names: list[str]) -> None:
    """Refuse the cluster's options for another world: whoever gave one meant a cluster.

    `--yes` is none of them: it agrees to what the local world does not ask.

    Raises:
        UsageError: Names them.
    """
    options = {str(each.name): max(each.opts, key=len) for each in context.command.params}
    stray = [
        options[name] for name in names if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
    ]
    if stray:
        listed = ", ".join(stray)
        raise UsageError(
            f"only a drill on a cluster heeds {listed}, and this one is for the local world",
            f"add --world eks, or leave {listed} out",
        )


def _read(given: dict[str, Any]) -> EksOptions:
    from firstfault.drills import EksOptions  # noqa: PLC0415 - not needed for --help

    extra: dict[str, Any] = {"image": given["image"]} if given["image"] else {}
    if given["selector"]:
        extra["node_selector"] = _pairs(given["selector"], "--node-selector")
    return EksOptions(
        injector=given["injector"],
        terraform_dir=given["terraform_dir"],
        var_files=list(given["var_files"]),
        groups=_pairs(given["groups"], "--group"),
        namespace=given["namespace"],
        context=given["context"],
        region=given["region"],
        gpus=given["gpus"],
        accept=list(given["accept"]),
        max_duration_s=_seconds(given["max_duration"]),
        **extra,
    )


def _pairs(words: tuple[str, ...], option: str) -> dict[str, str]:
    for word in words:
        if "=" not in word:
            raise UsageError(f"{option} {word}: not of the form NAME=VALUE")
    return dict(word.split("=", 1) for word in words)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if match is None:
        raise UsageError(f"--max-duration {text}: not a time such as 90s, 15m or 1h")
    return float(match[1]) * _UNITS[match[2]]
