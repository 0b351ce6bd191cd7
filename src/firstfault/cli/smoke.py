"""`firstfault smoke`: climb the ladder between real peers, before a job does, or every half hour."""

from __future__ import annotations

import math
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from firstfault.cli.ending import ending_in_order
from firstfault.cli.output import Seconds, TargetPath, write_output
from firstfault.errors import ExitCode, UsageError
from firstfault.model.safe_text import without_commands
from firstfault.model.scratch import private_folder

if TYPE_CHECKING:
    from firstfault.model.smoke import SmokeReport
    from firstfault.smoke import Options

__all__ = ["smoke"]

_SIZES = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9}


@click.command("smoke", context_settings={"help_option_names": ["-h", "--help"], "allow_interspersed_args": False})
@click.argument("program", nargs=-1, metavar="[-- PROGRAM ARGS...]")
@click.option("--rank", type=int, help="This rank; default: RANK, or JOB_COMPLETION_INDEX of an Indexed Job.")
@click.option("--world-size", type=int, help="How many ranks meet; default: WORLD_SIZE.")
@click.option("--master", metavar="HOST:PORT", help="Where they meet; default: MASTER_ADDR and MASTER_PORT.")
@click.option(
    "--backend",
    type=click.Choice(["auto", "nccl", "gloo"]),
    default="auto",
    show_default=True,
    help="auto: nccl where a GPU is.",
)
@click.option("--preflight", is_flag=True, help="As an init container: stop after TCP where no GPU is visible.")
@click.option("--wrap", is_flag=True, help="Then run PROGRAM, and triage its output when it fails.")
@click.option(
    "--wait",
    type=Seconds(),
    default=60,
    show_default=True,
    help="Seconds to wait for peers that start later.",
)
@click.option(
    "--min-bandwidth", metavar="BYTES/S", help="Fail below this bus bandwidth, e.g. 2.5G; default: by --instance-type."
)
@click.option(
    "--expect-transport",
    type=click.Choice(["efa", "ib", "socket", "any"]),
    help="Fail where NCCL chose another one; default: by --instance-type.",
)
@click.option("--instance-type", default="", envvar="FIRSTFAULT_INSTANCE_TYPE", help="EC2 instance type of the node.")
@click.option("--node", default="", envvar="FIRSTFAULT_NODE", help="Node name for metrics; default: the host name.")
@click.option("--logs", type=click.Path(file_okay=False, path_type=Path), help="Keep probes and backend output there.")
@click.option(
    "--textfile",
    type=TargetPath(dir_okay=False, path_type=Path),
    help="Write the metrics as a file for node-exporter's textfile collector.",
)
@click.option("--pushgateway", metavar="URL", help="Push the metrics to this Prometheus Pushgateway.")
@click.option(
    "--listen", type=click.IntRange(1, 65535), metavar="PORT", help="Serve the metrics on a port after the run."
)
@click.option("--linger", type=Seconds(), default=45, show_default=True, help="With --listen: for how many seconds.")
@click.option("--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--output", type=TargetPath(dir_okay=False, path_type=Path), help="Write to a file, not the terminal.")
def smoke(
    program: tuple[str, ...], wrap: bool, logs: Path | None, format_: str, output: Path | None, **given: Any
) -> int:
    """Climb the ladder between real peers: name, TCP both ways, store, backend, right sum, bandwidth, transport.

    Start it on every rank, with the environment that the job would have. Each rung has its own short limit, so a silent
    drop is named after seconds instead of after the job's ten minutes.

    \b
    On two nodes at the same time, and in a job in front of its program:
      firstfault smoke --rank 0 --world-size 2 --master node-a:29500
      firstfault smoke --rank 1 --world-size 2 --master node-a:29500
      firstfault smoke --wrap -- python train.py

    Exit code 0: every rung was climbed. 1: a fault, with its cause. 2: the call is wrong. 3: could not tell. --wrap
    with a good preflight: the code of the program.
    """  # noqa: D301 - click's mark for lines that stay as they are
    from firstfault.report.smoke import render_smoke  # noqa: PLC0415 - not needed for --help
    from firstfault.smoke import run_smoke  # noqa: PLC0415

    if bool(program) != wrap:
        raise UsageError("--wrap and a program belong together", "firstfault smoke --wrap -- python train.py ...")
    options = _options(given)
    with ending_in_order("its temporary files were deleted"), private_folder("firstfault-smoke-") as private:
        folder = logs or private
        folder.mkdir(parents=True, exist_ok=True)
        report = run_smoke(options, folder)
        shown = render_smoke(report, format_)
        if wrap and output is None:
            click.echo(without_commands(shown), err=True)  # standard output is the program's
        else:
            write_output(shown, output)
        _metrics(report, given)
        code = {"ok": ExitCode.OK, "fault": ExitCode.FINDING, "unknown": ExitCode.UNKNOWN}[report.status]
        if wrap and code is ExitCode.OK:
            return _wrapped(list(program), folder)
    return int(code)


def _options(given: dict[str, Any]) -> Options:
    from firstfault.smoke import Limits, Options, from_environment  # noqa: PLC0415

    environ = dict(os.environ)
    if given["rank"] is not None:
        environ["RANK"] = str(given["rank"])
    if given["world_size"] is not None:
        environ["WORLD_SIZE"] = str(given["world_size"])
    if given["master"]:
        host, _, port = given["master"].rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]  # IPv6, written as in a URL
        elif ":" in host:
            host = ""  # where its address ends and its port begins, nobody can tell
        if not host or not port.isdigit():
            raise UsageError(f"--master {given['master']}: not of the form HOST:PORT", "IPv6 addresses: [ADDRESS]:PORT")
        environ |= {"MASTER_ADDR": host, "MASTER_PORT": port}
    rank, size, master, local = from_environment(environ)
    return Options(
        rank=rank,
        world_size=size,
        master=master,
        local_rank=local,
        backend=_backend(given["backend"]),
        preflight=given["preflight"],
        min_bandwidth=_bytes(given["min_bandwidth"]),
        expect=given["expect_transport"],
        instance_type=given["instance_type"],
        limits=Limits(wait=given["wait"]),
    )


def _backend(wanted: str) -> Literal["nccl", "gloo"]:
    if wanted == "auto":
        return "nccl" if Path("/dev/nvidiactl").exists() else "gloo"
    return "nccl" if wanted == "nccl" else "gloo"


def _bytes(text: str | None) -> float | None:
    if not text:
        return None
    number, unit = (text[:-1], text[-1].upper()) if text[-1].isalpha() else (text, "")
    try:
        found = float(number) * _SIZES[unit]
    except (ValueError, KeyError):
        found = math.nan
    if not 0 <= found < math.inf:
        raise UsageError(f"--min-bandwidth {text}: not a number of bytes per second such as 2.5G")
    return found


def _metrics(report: SmokeReport, given: dict[str, Any]) -> None:
    if not (given["textfile"] or given["pushgateway"] or given["listen"]):
        return
    from firstfault.smoke.metrics import exposition, push, serve, write_textfile  # noqa: PLC0415

    node = given["node"] or socket.gethostname()
    text = exposition(report, node=node, instance_type=given["instance_type"])
    if given["textfile"]:
        write_textfile(text, given["textfile"])
    if given["pushgateway"]:
        push(text, given["pushgateway"], job="firstfault-smoke", instance=f"{node}-{report.rank}")
    if given["listen"]:
        serve(text, given["listen"], given["linger"])


def _wrapped(program: list[str], folder: Path) -> int:
    from firstfault.report import render_triage  # noqa: PLC0415
    from firstfault.smoke import run_wrapped  # noqa: PLC0415

    code, report = run_wrapped(program, folder / "program.log")
    if report is not None:
        sys.stdout.flush()
        click.echo(render_triage(report, "text"), err=True)
    return code
