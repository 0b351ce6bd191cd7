"""Reachability from configuration alone: the union of groups, statefulness, and ordered network ACLs."""

from __future__ import annotations

import pytest

from firstfault.collect.reachability import (
    Interface,
    parse_network_acl,
    parse_security_group,
    reachable,
)

ALL_OUT = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
SELF = {"IpProtocol": "tcp", "FromPort": 1025, "ToPort": 65535, "UserIdGroupPairs": [{"GroupId": "sg-node"}]}
VPC = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "192.168.0.0/16"}]}


def group(group_id, ingress=(), egress=()):
    data = {"GroupId": group_id, "IpPermissions": list(ingress), "IpPermissionsEgress": list(egress)}
    return parse_security_group(data)


def groups(node_ingress=(SELF,), node_egress=(ALL_OUT,), aux_ingress=(VPC,), aux_egress=(ALL_OUT,)):
    both = (group("sg-node", node_ingress, node_egress), group("sg-aux", aux_ingress, aux_egress))
    return {each.id: each for each in both}


def interface(address, subnet="subnet-a", groups=("sg-node", "sg-aux")):
    return Interface(address=address, eni=f"eni-{address[-1]}", subnet=subnet, groups=frozenset(groups))


A, B = interface("192.168.1.10"), interface("192.168.1.20")


def ask(all_groups, port=29500, a=A, b=B, acls=(), protocol="tcp"):
    return reachable(a, b, port, groups=all_groups, acls=list(acls), protocol=protocol)


def test_either_of_the_two_cutting_rules_alone_keeps_the_port_open():
    """The auxiliary group's VPC rule is the hidden allow path, and the self-reference is the other."""
    assert ask(groups()).state == "open"
    assert ask(groups(node_ingress=())).state == "open"
    assert ask(groups(aux_ingress=())).state == "open"
    answer = ask(groups(node_ingress=(), aux_ingress=()))
    assert answer.state == "dropped"
    assert answer.decided_by == "security groups"
    assert "ingress" in answer.why
    assert "sg-node" in answer.why


def test_the_auxiliary_egress_makes_up_for_the_lost_node_egress():
    """Egress is a union, too."""
    assert ask(groups(node_egress=())).state == "open"
    lost = ask(groups(node_egress=(), aux_egress=()))
    assert lost.state == "dropped"
    assert "egress" in lost.why


@pytest.mark.parametrize(("port", "state"), [(1024, "dropped"), (1025, "open"), (65535, "open"), (443, "dropped")])
def test_port_ranges_are_inclusive(port, state):
    assert ask(groups(aux_ingress=()), port=port).state == state


def test_protocol_counts():
    assert ask(groups(aux_ingress=()), protocol="udp").state == "dropped"


def test_group_that_cannot_be_read_is_unknown_unless_another_admits():
    """A sensor that could not look says unknown, never dropped."""
    only_node = {"sg-node": groups()["sg-node"]}
    assert ask(only_node).state == "open"
    assert ask({"sg-node": group("sg-node", (), (ALL_OUT,))}).state == "unknown"


def test_prefix_list_members_are_not_guessed():
    listed = {"IpProtocol": "tcp", "FromPort": 29500, "ToPort": 29500, "PrefixListIds": [{"PrefixListId": "pl-1"}]}
    assert ask(groups(node_ingress=(listed,), aux_ingress=())).state == "unknown"


def acl(acl_id, subnet, *entries):
    return parse_network_acl(
        {
            "NetworkAclId": acl_id,
            "Associations": [{"SubnetId": subnet}],
            "Entries": [
                {
                    "RuleNumber": number,
                    "Egress": egress,
                    "RuleAction": action,
                    "Protocol": "6",
                    "CidrBlock": "0.0.0.0/0",
                    **({"PortRange": {"From": ports[0], "To": ports[1]}} if ports else {}),
                }
                for number, egress, action, ports in entries
            ],
        }
    )


FREE_A = acl("acl-a", "subnet-a", (100, True, "allow", None), (100, False, "allow", None))


def test_network_acl_counts_only_between_subnets_and_both_ways():
    """Stateless: the answer needs a way back on ephemeral ports."""
    far = interface("192.168.2.20", subnet="subnet-b")
    no_way_back = acl("acl-b", "subnet-b", (100, False, "allow", None), (100, True, "allow", (29500, 29500)))
    answer = ask(groups(), b=far, acls=[FREE_A, no_way_back])
    assert answer.state == "dropped"
    assert answer.decided_by == "network acl"
    assert ask(groups(), acls=[FREE_A, no_way_back]).state == "open", "same subnet: no ACL on the way"


def test_lowest_matching_number_of_an_acl_decides():
    far = interface("192.168.2.20", subnet="subnet-b")
    deny_first = acl(
        "acl-b",
        "subnet-b",
        (90, False, "deny", (29000, 30000)),
        (100, False, "allow", None),
        (100, True, "allow", None),
    )
    allow_first = acl(
        "acl-b",
        "subnet-b",
        (100, False, "deny", (29000, 30000)),
        (90, False, "allow", None),
        (100, True, "allow", None),
    )
    assert ask(groups(), b=far, acls=[FREE_A, deny_first]).state == "dropped"
    assert ask(groups(), b=far, acls=[FREE_A, allow_first]).state == "open"
    assert ask(groups(), b=far, acls=[FREE_A]).state == "unknown"


def test_rules_are_counted_one_per_peer():
    """As the console and describe-security-group-rules count them."""
    permission = {
        "IpProtocol": "tcp",
        "FromPort": 53,
        "ToPort": 53,
        "IpRanges": [{"CidrIp": "10.0.0.0/8"}, {"CidrIp": "172.16.0.0/12"}],
        "UserIdGroupPairs": [{"GroupId": "sg-node"}],
    }
    assert len(group("sg-x", (permission,)).ingress) == 3
