"""The formula (A7): "no NCCL line, so NCCL was never entered", and on what it may rest.

Silence proves something only where NCCL would have spoken on this stream: the nccl backend, NCCL_DEBUG at INFO or
TRACE, no filter on its subsystems, no redirection to a file, and a first collective in reach (communicators are lazy).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.model import RuledOut

if TYPE_CHECKING:
    from firstfault.diagnosis.facts import Facts

__all__ = ["formula"]

STORE_CAUSES = ("network.c10d.", "network.dns.")


def formula(facts: Facts, cause: str) -> tuple[str, list[RuledOut]]:
    """Return the sentence that says on what a verdict at the store rung rests, and what it rules out.

    Both are empty for verdicts on other rungs.
    """
    if not cause.startswith(STORE_CAUSES):
        return "", []
    if facts.has("nccl.speaks", "nccl.init-start"):
        return "", []
    weak = _broken_premise(facts)
    joined = next(
        (
            f"{item.fields['joined']}/{item.fields['world']} clients joined"
            for item in facts.signals.get("store.clients", ())
        ),
        "the lines of the c10d store",
    )
    if weak:
        sentence = f"It rests on the store rung ({joined}); that NCCL is silent proves nothing here, because {weak}."
        why = f"the job stopped at the store ({joined}), one rung before any backend connects"
    else:
        sentence = (
            "NCCL_DEBUG=INFO was set and there is no NCCL line: the rendezvous failed before NCCL was entered "
            f"({joined})."
        )
        why = "no NCCL INFO line although NCCL_DEBUG=INFO was set: NCCL was never entered"
    ruled = [] if cause.startswith("network.nccl") else [RuledOut(cause="network.nccl.bootstrap-unreachable", why=why)]
    return sentence, ruled


def _broken_premise(facts: Facts) -> str:
    """Why silence of NCCL says nothing; "" where it does say something."""
    if facts.backend == "gloo":
        return "the backend is gloo"
    levels = {item.fields["value"].upper() for item in facts.signals.get("nccl.debug", ())}
    if not levels:
        return "no line shows that NCCL_DEBUG=INFO was set"
    if not levels & {"INFO", "TRACE"}:
        return f"NCCL_DEBUG is {', '.join(sorted(levels))}, at which a healthy NCCL is silent too"
    if facts.has("nccl.debug-file"):
        return "NCCL_DEBUG_FILE sends its lines elsewhere"
    for item in facts.signals.get("nccl.debug-subsys", ()):
        if not {"INIT", "ALL"} & set(item.fields["value"].upper().split(",")):
            return f"NCCL_DEBUG_SUBSYS={item.fields['value']} hides its first lines"
    return ""
