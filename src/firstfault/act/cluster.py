"""Creates and deletes Kubernetes objects for a drill. Reading is `firstfault.collect.kube`; this adds the two writes.

Whatever is created bears the label `firstfault/run`, and only what bears the label of this very run is ever deleted.
"""

from __future__ import annotations

from typing import Any

from firstfault.collect.kube import KubeError, KubeReader

__all__ = ["RUN_LABEL", "Cluster"]

RUN_LABEL = "firstfault/run"


class Cluster(KubeReader):
    """A cluster that a drill may write to.

    Args:
        context: kubeconfig context; None for the current one.
        run: Id of the run, for the label.
    """

    def __init__(self, context: str | None, run: str) -> None:
        super().__init__(context)
        self.run = run

    def get(self, path: str) -> dict[str, Any] | None:
        """Return one object, or None when there is none of that name.

        Raises:
            KubeError: Refused or unreachable.
        """
        try:
            found: dict[str, Any] = self._get(path, {}).json()
        except KubeError as error:
            if error.status == 404:
                return None
            raise
        return found

    def create(self, path: str, body: dict[str, Any]) -> None:
        """Create an object with our label.

        Raises:
            KubeError: Refused; status 409 when something of that name is there already.
        """
        body.setdefault("metadata", {}).setdefault("labels", {})[RUN_LABEL] = self.run
        self._write("POST", path, json=body)

    def delete(self, path: str) -> bool:
        """Delete an object if it bears the label of this run; say whether it is gone now.

        Raises:
            KubeError: Refused or unreachable.
        """
        found = self.get(path)
        if found is None:
            return True
        metadata = found.get("metadata") or {}
        if (metadata.get("labels") or {}).get(RUN_LABEL) != self.run:
            return False
        # The precondition makes sure that the object which was looked at is the one that goes.
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": metadata.get("uid")}}
        try:
            self._write("DELETE", path, json=body)
        except KubeError as error:
            if error.status != 404:
                raise
        return True

    def _write(self, method: str, path: str, **arguments: Any) -> None:
        response = self._send(method, path, **arguments)
        if response.status_code >= 400:
            raise self._refused(path, response, method)
