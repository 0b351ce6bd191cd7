"""The Kyverno twin of an admission policy. Needs Kyverno 1.13 or later (`validate.failureAction`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from firstfault.guardrails.admission import MATCHES, OPT_OUT, Default, Mount, Policy, metadata, variables
from firstfault.guardrails.instances import has_efa

if TYPE_CHECKING:
    from firstfault.guardrails.options import Options
    from firstfault.guardrails.spec import Guardrail

__all__ = ["kyverno_policies"]

_LIMITS = "to_string(request.object.spec.containers[].resources.limits)"
_HOST_NETWORK = {"key": "{{ request.object.spec.hostNetwork || `false` }}", "operator": "Equals"}
_MOST_GPUS = """{{ max(request.object.spec.containers[].to_number(resources.limits."nvidia.com/gpu" || '0')) }}"""
_INSTANCE_TYPE = "{{ request.object.spec.nodeSelector.\"node.kubernetes.io/instance-type\" || '' }}"


def kyverno_policies(policy: Policy, guardrail: Guardrail, options: Options) -> list[dict[str, Any]]:
    """Return one ClusterPolicy: the validations as CEL, and in enforce mode the mutations."""
    rules = []
    if options.mode == "enforce":
        rules += _mutations(policy, options)
    if policy.validations:
        rules.append(_validation(policy, options))
    described = metadata(policy, guardrail)
    described["annotations"] = {
        **described["annotations"],
        "policies.kyverno.io/title": guardrail.title,
        # The expressions speak of Pods; rules for controllers made from them would be wrong.
        "pod-policies.kyverno.io/autogen-controllers": "none",
    }
    return [
        {
            "apiVersion": "kyverno.io/v1",
            "kind": "ClusterPolicy",
            "metadata": described,
            "spec": {"background": False, "failurePolicy": "Ignore", "rules": rules},
        }
    ]


def _rule(name: str, options: Options) -> dict[str, Any]:
    return {
        "name": name,
        "match": {"any": [{"resources": {"kinds": ["Pod"], "operations": ["CREATE"]}}]},
        "exclude": {
            "any": [
                {"resources": {"namespaces": list(options.exclude_namespaces)}},
                {"resources": {"selector": {"matchLabels": {OPT_OUT: "off"}}}},
            ]
        },
    }


def _validation(policy: Policy, options: Options) -> dict[str, Any]:
    action = "Enforce" if options.mode == "enforce" else "Audit"
    return {
        **_rule("check", options),
        "celPreconditions": [{"name": policy.match, "expression": MATCHES[policy.match]}],
        "validate": {
            "failureAction": action,
            "cel": {
                "variables": [{"name": n, "expression": e} for n, e in variables(options).items()],
                "expressions": [
                    {"expression": v.expression.strip(), "message": v.message.strip()} for v in policy.validations
                ],
            },
        },
    }


def _mutations(policy: Policy, options: Options) -> list[dict[str, Any]]:
    rules = []
    if policy.service_links_off:
        rules.append(
            {
                **_rule("service-links-off", options),
                "preconditions": {
                    "all": [
                        {"key": f"{{{{ contains({_LIMITS}, 'nvidia.com/') }}}}", "operator": "Equals", "value": True}
                    ]
                },
                "mutate": {"patchStrategicMerge": {"spec": {"enableServiceLinks": False}}},
            }
        )
    rules += [_env(default, options) for default in policy.env]
    if policy.mount:
        rules.append(_mount(policy.mount, policy, options))
    return rules


def _env(default: Default, options: Options) -> dict[str, Any]:
    rule = _rule(default.name.lower().replace("_", "-"), options)
    conditions = _conditions(default, options)
    if conditions:
        rule["preconditions"] = {"all": conditions}
    rule["mutate"] = {
        "foreach": [
            {
                "list": "request.object.spec.containers",
                "preconditions": {
                    "all": [
                        _asks_for_gpu(),
                        {"key": "{{ length(element.envFrom || `[]`) }}", "operator": "Equals", "value": 0},
                        {"key": default.name, "operator": "AnyNotIn", "value": "{{ element.env[].name || `[]` }}"},
                    ]
                },
                "patchStrategicMerge": {
                    "spec": {
                        "containers": [
                            {"name": "{{ element.name }}", "env": [{"name": default.name, "value": default.value}]}
                        ]
                    }
                },
            }
        ]
    }
    return rule


def _mount(mount: Mount, policy: Policy, options: Options) -> dict[str, Any]:
    rule = _rule(mount.volume, options)
    empty_dir = {"medium": mount.medium} if mount.medium else {}
    if policy.fills == "several-gpus":
        rule["preconditions"] = {"all": [{"key": _MOST_GPUS, "operator": "GreaterThan", "value": 1}]}
    rule["mutate"] = {
        "foreach": [
            {
                "list": "request.object.spec.containers",
                "preconditions": {
                    "all": [
                        _asks_for_gpu(),
                        {
                            "key": mount.path,
                            "operator": "AnyNotIn",
                            "value": "{{ element.volumeMounts[].mountPath || `[]` }}",
                        },
                    ]
                },
                "patchStrategicMerge": {
                    "spec": {
                        "containers": [
                            {
                                "name": "{{ element.name }}",
                                "volumeMounts": [{"name": mount.volume, "mountPath": mount.path}],
                            }
                        ],
                        "volumes": [{"name": mount.volume, "emptyDir": empty_dir}],
                    }
                },
            }
        ]
    }
    return rule


def _asks_for_gpu() -> dict[str, Any]:
    return {
        "key": "{{ contains(to_string(element.resources.limits || `{}`), 'nvidia.com/') }}",
        "operator": "Equals",
        "value": True,
    }


def _conditions(default: Default, options: Options) -> list[dict[str, Any]]:
    multus = "{{ request.object.metadata.annotations.\"k8s.v1.cni.cncf.io/networks\" || '' }}"
    fabric = [
        {"key": f"{{{{ contains({_LIMITS}, '{word}') }}}}", "operator": "Equals", "value": False}
        for word in ("efa", "rdma", "infiniband")
    ]
    match default.condition:
        case "pod-network":
            return [{**_HOST_NETWORK, "value": False}, {"key": multus, "operator": "Equals", "value": ""}]
        case "host-network":
            return [{**_HOST_NETWORK, "value": True}]
        case "efa":
            return [{"key": f"{{{{ contains({_LIMITS}, 'efa') }}}}", "operator": "Equals", "value": True}]
        case "no-rdma":
            return fabric + _pinned(options)
        case _:
            return []


def _pinned(options: Options) -> list[dict[str, Any]]:
    """Where the cluster may have EFA instances, only a Pod that is pinned to another type is known to lack a fabric."""
    if options.instance_types and not any(map(has_efa, options.instance_types)):
        return []
    without = [f"{family}.*" for family in ("g4dn", "g5", "g6", "g6e", "p3")]
    return [
        {"key": _INSTANCE_TYPE, "operator": "AnyIn", "value": without},
        {"key": _INSTANCE_TYPE, "operator": "AnyNotIn", "value": list(options.efa_types)},
    ]
