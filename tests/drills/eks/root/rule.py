"""Authorizes or revokes one security-group rule: `rule.py authorize ingress sg-1 tcp 53 53 sg-1`.

Speaks EC2's query protocol by hand: starting boto3 for each of a dozen rules would take most of a test's time. moto does
not check the signature.
"""

import os
import sys
import urllib.parse
import urllib.request

verb, side, group, protocol, first, last, peer = sys.argv[1:]
form = {
    "Action": f"{verb.capitalize()}SecurityGroup{side.capitalize()}",
    "Version": "2016-11-15",
    "GroupId": group,
    "IpPermissions.1.IpProtocol": protocol,
}
if protocol != "-1":
    form |= {"IpPermissions.1.FromPort": first, "IpPermissions.1.ToPort": last}
if peer.startswith("sg-"):
    form["IpPermissions.1.Groups.1.GroupId"] = peer
else:
    form["IpPermissions.1.IpRanges.1.CidrIp"] = peer
region = os.environ["AWS_DEFAULT_REGION"]
request = urllib.request.Request(
    os.environ["AWS_ENDPOINT_URL"],
    data=urllib.parse.urlencode(form).encode(),
    headers={
        "Authorization": f"AWS4-HMAC-SHA256 Credential=testing/20260101/{region}/ec2/aws4_request, "
        "SignedHeaders=host, Signature=0",
        "Content-Type": "application/x-www-form-urlencoded",
    },
)
urllib.request.urlopen(request).close()
