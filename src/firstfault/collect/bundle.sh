#!/bin/sh
# Gathers the evidence of one GPU job for `firstfault triage`. Every command only reads, except the one marked exec,
# which copies flight-recorder dumps out of running containers; take it out if you may not.
set -u
umask 077
out="${1:-firstfault-bundle}"
mkdir -p "$out/logs" "$out/flight-recorder" && cd "$out" || exit 2
k() { @KUBECTL@ "$@" < /dev/null; }

@LISTS@

# what every container said, before its last restart too
for pod in $(k get pods @NAMESPACE@ @SELECTOR@ -o name); do
  name="${pod#pod/}"
  mkdir -p "logs/$name"
  for c in $(k get @NAMESPACE@ "$pod" -o 'jsonpath={.spec.initContainers[*].name} {.spec.containers[*].name}'); do
    k logs @NAMESPACE@ "$name" -c "$c" --timestamps > "logs/$name/$c.log"
    k logs @NAMESPACE@ "$name" -c "$c" --timestamps --previous > "logs/$name/$c.previous.log" 2>/dev/null
    # exec: flight-recorder dumps vanish with the container
    k exec @NAMESPACE@ "$name" -c "$c" -- sh -c @FLIGHT_RECORDER@ > "flight-recorder/$name-$c.tar" 2>/dev/null
  done
done

# what the Pods' interfaces really obey (EC2 nodes only)
ids=$(grep -o 'aws:///[a-z0-9-]*/i-[0-9a-f]*' nodes.json | sed 's|.*/||' | sort -u | paste -sd, -)
if [ -n "$ids" ]; then
  aws ec2 describe-network-interfaces --output json \
    --filters "Name=attachment.instance-id,Values=$ids" > network-interfaces.json
  groups=$(grep -o '"sg-[0-9a-f]*"' network-interfaces.json | tr -d '"' | sort -u)
  subnets=$(grep -o '"subnet-[0-9a-f]*"' network-interfaces.json | tr -d '"' | sort -u | paste -sd, -)
  # shellcheck disable=SC2086 # a list of ids
  [ -n "$groups" ] && aws ec2 describe-security-groups --output json --group-ids $groups > security-groups.json
  [ -n "$subnets" ] && aws ec2 describe-network-acls --output json \
    --filters "Name=association.subnet-id,Values=$subnets" > network-acls.json
fi

find . -type f -size 0 -exec rm {} +
echo "now: firstfault triage $out   (it is not redacted: look through it before you send it to somebody)" >&2
