"""Authorizes or revokes one security-group rule: `rule.py authorize ingress sg-1 tcp 53 53 sg-1`."""

import sys

import boto3

verb, side, group, protocol, first, last, peer = sys.argv[1:]
permission = {"IpProtocol": protocol}
if protocol != "-1":
    permission |= {"FromPort": int(first), "ToPort": int(last)}
if peer.startswith("sg-"):
    permission["UserIdGroupPairs"] = [{"GroupId": peer}]
else:
    permission["IpRanges"] = [{"CidrIp": peer}]
ec2 = boto3.client("ec2")
getattr(ec2, f"{verb}_security_group_{side}")(GroupId=group, IpPermissions=[permission])
