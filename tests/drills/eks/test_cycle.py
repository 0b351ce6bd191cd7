"""The whole loop on real parts: terraform changes moto's groups, the groups cut real ranks, and all is put back."""

from __future__ import annotations

import pytest

from firstfault.drills import Options, run_drill

pytestmark = [pytest.mark.terraform, pytest.mark.aws, pytest.mark.netns, pytest.mark.torch, pytest.mark.slow]


def objects(kube, *kinds):
    return [key for key in kube.objects if key[0] in kinds]


def test_network_policy_drill_touches_no_security_group(cluster):
    """For clusters whose groups must not change: a policy on the drill's own Pods gives the same symptom."""
    report = run_drill("sg-block", world="eks", options=Options(eks=cluster.options(injector="networkpolicy")))
    assert report.as_expected, report.expected_vs_measured
    assert report.restored
    assert report.verdict.cause == "network.c10d.unreachable"
    assert objects(cluster.kube, "pods", "services", "configmaps", "networkpolicies") == []
    assert cluster.rules() == {"node": 10, "aux": 1}


@pytest.mark.parametrize("injector", ["terraform", "ec2"])
def test_security_group_drill_on_a_cluster(cluster, injector):
    """Baseline 3..48, eight rules gone, 1/2 clients joined, eight rules back, 3..48 again; nothing is left."""
    before = cluster.rules()
    report = run_drill("sg-block", world="eks", options=Options(eks=cluster.options(injector=injector)))
    assert [
        (row.item, row.measured) for row in report.expected_vs_measured if row.basis == "scenario" and row.match == "no"
    ] == []
    assert report.as_expected
    assert report.restored, report.recovery
    assert report.verdict.cause == "network.c10d.unreachable"
    phases = {phase.name: phase for phase in report.phases}
    assert phases["injected"].firewall["node"] == {"ingress": 4, "egress": 0}
    assert phases["injected"].firewall["aux"] == {"ingress": 0, "egress": 1}
    for name in ("baseline", "restored"):
        assert [rank.sums for rank in phases[name].ranks] == [[3.0, 6.0, 12.0, 24.0, 48.0]] * 2
    assert cluster.rules() == before == {"node": 10, "aux": 1}
    assert objects(cluster.kube, "pods", "services", "configmaps") == []
