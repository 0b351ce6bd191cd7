"""Whatever stands in a plan, the lock answers or says that it is no plan; it never crashes."""

from __future__ import annotations

import copy
import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firstfault.errors import InputError
from firstfault.guardrails.lock import judge, read_plan
from guardrails.test_lock import change, plan, seed

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def places(value, path=()):
    """Every place of a JSON document."""
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


DOCUMENT = plan(
    *seed(recommended=False, aux=False)[:4],
    change("aws_launch_template", "t", ["no-op"], {"vpc_security_group_ids": ["sg-node", "sg-aux"]}),
    change("aws_vpc", "v", ["no-op"], {"cidr_block": "192.168.0.0/16"}),
    change("aws_security_group", "aws_security_group.g", ["no-op"], {"id": "sg-node", "ingress": [{"self": True}]}),
    prior_state={
        "values": {"root_module": {"resources": [{"type": "aws_vpc", "values": {"cidr_block": "10.0.0.0/8"}}]}}
    },
    configuration={"root_module": {"resources": [], "module_calls": {"eks": {"module": {"resources": []}}}}},
)
PLACES = list(places(DOCUMENT))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.sampled_from(PLACES), value=VALUES)
def test_any_value_anywhere(tmp_path, where, value):
    """One place of a good plan holds something else."""
    document = copy.deepcopy(DOCUMENT)
    target = document
    for key in where[:-1]:
        target = target[key]
    if where:
        target[where[-1]] = value
    else:
        document = value
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))

    try:
        report = judge(read_plan(path))
    except InputError:
        return
    assert report.result in ("pass", "refuse", "unknown")
