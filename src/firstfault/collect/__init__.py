"""Gathers evidence from a cluster and an account with read-only calls.

`gather_live` reads through the APIs into a folder; `commands` lists the kubectl and aws commands that make the same
folder for people who may not use these APIs from here; `reachability` answers questions from configuration alone.
"""

from __future__ import annotations

from firstfault.collect.configuration import configuration_permissions, gather_configuration
from firstfault.collect.live import gather_live

__all__ = ["configuration_permissions", "gather_configuration", "gather_live"]
