"""Policies on good and bad Pods: what is filled in, what is refused, what is left alone; Kyverno and native alike."""

from __future__ import annotations

import copy

import pytest
import yaml

from firstfault.guardrails import Options, render
from guardrails import policies

POLICIES = ("nccl-defaults", "service-links", "shared-memory", "flight-recorder", "efa-request")
MIXED = ("g5.xlarge", "p5.48xlarge")


def documents(engine, options):
    folder = f"components/{engine}-policies/"
    files = render(options, list(POLICIES)).files
    names = [path for path in files if path.startswith(folder) and not path.endswith("kustomization.yaml")]
    return [document for name in names for document in yaml.safe_load_all(files[name])]


def options(engine, mode="enforce", types=MIXED, **more):
    features = frozenset(["kyverno"] if engine == "kyverno" else [])
    return Options(kubernetes="1.36", mode=mode, features=features, instance_types=types, **more)


def admit(engine, pod, **more):
    """Return the Pod after mutation and the refusals."""
    run = policies.kyverno if engine == "kyverno" else policies.native
    return run(documents(engine, options(engine, **more)), pod)


def pod(gpus="1", env=None, labels=None, annotations=None, namespace="ml", container=None, **spec):
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    main = {"name": "main", "image": "train", "resources": {"limits": limits}, **(container or {})}
    if env is not None:
        main["env"] = [{"name": name, "value": value} for name, value in env.items()]
    metadata = {"name": "p", "namespace": namespace}
    if labels:
        metadata["labels"] = labels
    if annotations:
        metadata["annotations"] = annotations
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [main], **spec}}


def env_of(result, name="main"):
    container = next(c for c in result["spec"]["containers"] if c["name"] == name)
    return {entry["name"]: entry.get("value") for entry in container.get("env", [])}


RANK = {"MASTER_ADDR": "nccl-master", "MASTER_PORT": "29500"}
both = pytest.mark.parametrize("engine", ["kyverno", "native"])


@both
class TestDefaults:
    """What is filled in."""

    def test_a_bare_rank_gets_what_it_forgot(self, engine):
        """After mutation nothing is left to complain about."""
        result, refused = admit(engine, pod(env=RANK, nodeSelector={"node.kubernetes.io/instance-type": "g5.xlarge"}))

        assert env_of(result) == {
            **RANK,
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,NET",
            "NCCL_SOCKET_IFNAME": "eth0",
            "NCCL_IB_DISABLE": "1",
            "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
            "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
            "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/var/run/firstfault/nccl_trace_rank_",
        }
        assert result["spec"]["enableServiceLinks"] is False
        assert refused == []

    def test_what_the_pod_sets_is_never_overwritten(self, engine):
        """Not a value, not a reference, not even an empty string."""
        own = {**RANK, "NCCL_DEBUG": "WARN", "NCCL_SOCKET_IFNAME": "", "NCCL_DEBUG_SUBSYS": "ALL"}
        given = pod(env=own)
        given["spec"]["containers"][0]["env"].append(
            {"name": "TORCH_NCCL_TRACE_BUFFER_SIZE", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}
        )

        result, _ = admit(engine, given)

        assert {name: env_of(result)[name] for name in own} == own
        entry = next(e for e in result["spec"]["containers"][0]["env"] if e["name"] == "TORCH_NCCL_TRACE_BUFFER_SIZE")
        assert "value" not in entry

    def test_a_container_with_env_from_is_left_alone(self, engine):
        """Its variables cannot be seen, and ours would win over them."""
        given = pod(env=RANK, container={"envFrom": [{"configMapRef": {"name": "nccl"}}]})

        result, refused = admit(engine, given)

        assert env_of(result) == RANK
        assert refused == []

    def test_with_host_network_the_virtual_interfaces_are_excluded(self, engine):
        """eth0 would be wrong there."""
        result, _ = admit(engine, pod(env=RANK, hostNetwork=True))

        assert env_of(result)["NCCL_SOCKET_IFNAME"] == "^lo,docker,veth,eni,cni,cali"

    def test_with_further_networks_no_interface_is_chosen(self, engine):
        """A Pod with Multus networks knows better."""
        result, _ = admit(engine, pod(env=RANK, annotations={"k8s.v1.cni.cncf.io/networks": "rdma-net"}))

        assert "NCCL_SOCKET_IFNAME" not in env_of(result)

    @pytest.mark.parametrize(
        ("types", "selector", "resource", "expected"),
        [
            (("g5.xlarge",), None, None, True),  # the cluster has no fabric at all
            (MIXED, None, None, False),  # the Pod may land on EFA
            (MIXED, "g5.xlarge", None, True),
            (MIXED, "p5.48xlarge", None, False),
            ((), "g5.48xlarge", None, False),  # a g5 with EFA
            ((), "g5.xlarge", None, True),
            ((), None, None, False),  # nothing is known
            (("g5.xlarge",), None, "rdma/hca_shared_devices_a", False),
        ],
    )
    def test_ib_is_switched_off_only_where_there_is_no_fabric(self, engine, types, selector, resource, expected):
        """A wrong NCCL_IB_DISABLE costs InfiniBand users their fabric."""
        given = pod(env=RANK)
        if selector:
            given["spec"]["nodeSelector"] = {"node.kubernetes.io/instance-type": selector}
        if resource:
            given["spec"]["containers"][0]["resources"]["limits"][resource] = "1"

        result, _ = admit(engine, given, types=types)

        assert ("NCCL_IB_DISABLE" in env_of(result)) is expected

    def test_a_pod_that_asks_for_efa_gets_the_provider(self, engine):
        """And keeps its fabric."""
        given = pod(gpus="8", env=RANK, nodeSelector={"node.kubernetes.io/instance-type": "p5.48xlarge"})
        given["spec"]["containers"][0]["resources"]["limits"]["vpc.amazonaws.com/efa"] = "32"

        result, refused = admit(engine, given)

        assert env_of(result)["FI_PROVIDER"] == "efa"
        assert "NCCL_IB_DISABLE" not in env_of(result)
        assert refused == []

    def test_several_gpus_get_shared_memory_once(self, engine):
        """One volume, one mount; a second run adds nothing."""
        result, _ = admit(engine, pod(gpus="8"))
        again, _ = admit(engine, result)

        mounts = [m for m in result["spec"]["containers"][0]["volumeMounts"] if m["mountPath"] == "/dev/shm"]
        volumes = [v for v in result["spec"]["volumes"] if v["name"] == "firstfault-shm"]
        assert mounts == [{"mountPath": "/dev/shm", "name": "firstfault-shm"}]
        assert volumes == [{"name": "firstfault-shm", "emptyDir": {"medium": "Memory"}}]
        assert again == result

    def test_an_own_mount_at_dev_shm_is_kept(self, engine):
        """Its size limit is the user's choice."""
        given = pod(gpus="8", container={"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}]})
        given["spec"]["volumes"] = [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}]

        result, refused = admit(engine, given)

        assert [m["name"] for m in result["spec"]["containers"][0]["volumeMounts"] if m["mountPath"] == "/dev/shm"] == [
            "shm"
        ]
        assert "firstfault-shm" not in str(result)
        assert refused == []

    def test_a_single_gpu_gets_no_shared_memory(self, engine):
        """It counts against the memory limit."""
        result, _ = admit(engine, pod(gpus="1"))

        assert "/dev/shm" not in str(result)

    def test_a_sidecar_without_a_gpu_is_left_alone(self, engine):
        """Only containers that ask for GPUs are given anything."""
        given = pod(env=RANK)
        given["spec"]["containers"].append({"name": "proxy", "image": "envoy"})

        result, _ = admit(engine, given)

        assert result["spec"]["containers"][1] == {"name": "proxy", "image": "envoy"}

    @pytest.mark.parametrize(
        "given",
        [
            pod(gpus=None, env=RANK),
            pod(env=RANK, namespace="kube-system"),
            pod(gpus="8", env=RANK, labels={"firstfault/guard": "off"}),
        ],
        ids=["no GPU", "excluded namespace", "opted out"],
    )
    def test_other_pods_are_not_touched(self, engine, given):
        """No change and no refusal."""
        before = copy.deepcopy(given)
        before["spec"]["enableServiceLinks"] = True

        assert admit(engine, given) == (before, [])

    def test_audit_mode_changes_nothing_and_names_what_is_missing(self, engine):
        """The messages carry the items of the checklist."""
        given = pod(gpus="8", env=RANK)

        result, refused = admit(engine, given, mode="audit")

        given["spec"]["enableServiceLinks"] = True
        assert result == given
        assert sorted(message[:2] for message in refused) == ["B1", "B7", "B8", "Mo"]


@both
class TestRefusals:
    """What is refused even after mutation, because only the author can put it right."""

    def test_eth0_with_host_network(self, engine):
        """The node's interface is called otherwise."""
        _, refused = admit(engine, pod(env={**RANK, "NCCL_SOCKET_IFNAME": "eth0"}, hostNetwork=True))

        assert len(refused) == 1
        assert "ens5" in refused[0]

    @pytest.mark.parametrize(
        ("spec", "expected"),
        [
            ({"nodeSelector": {"node.kubernetes.io/instance-type": "p5.48xlarge"}}, 1),
            ({"nodeSelector": {"node.kubernetes.io/instance-type": "g5.xlarge"}}, 0),
            ({}, 0),
            ({"affinity": ["p5.48xlarge"]}, 1),
            ({"affinity": ["p5.48xlarge", "g5.xlarge"]}, 0),
        ],
    )
    def test_an_efa_instance_without_an_efa_request(self, engine, spec, expected):
        """Only where the Pod can land on nothing else."""
        if types := spec.get("affinity"):
            expression = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types}
            terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
            spec = {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}

        _, refused = admit(engine, pod(gpus="8", env=RANK, **spec))

        assert len([message for message in refused if message.startswith("C7")]) == expected

    def test_a_single_node_job_on_an_efa_instance_needs_no_efa(self, engine):
        """Nothing says that it is a rank of a distributed job."""
        _, refused = admit(engine, pod(gpus="8", nodeSelector={"node.kubernetes.io/instance-type": "p5.48xlarge"}))

        assert refused == []


@pytest.mark.parametrize(
    "given",
    [
        pod(env={"PET_NNODES": "2"}),
        pod(container={"command": ["torchrun", "train.py"]}),
        pod(container={"args": ["-m", "torch.distributed.run", "train.py"]}),
        pod(labels={"jobset.sigs.k8s.io/jobset-name": "llm"}),
    ],
    ids=["PET variables", "torchrun", "module", "JobSet"],
)
def test_ranks_are_recognised(given):
    """By variable, launcher or job label."""
    _, refused = policies.native(documents("native", options("native", mode="audit")), given)

    assert any(message.startswith("B7/C4") for message in refused)


def test_before_the_kind_exists_native_policies_only_validate():
    """MutatingAdmissionPolicy is GA in 1.36, and beta and off by default in 1.34 and 1.35."""
    kinds = {
        (version, features): {
            document["kind"]
            for path, text in render(
                Options(kubernetes=version, mode="enforce", features=frozenset(features)), ["service-links"]
            ).files.items()
            if "native" in path
            for document in yaml.safe_load_all(text)
        }
        for version, features in [("1.29", ()), ("1.33", ()), ("1.35", ()), ("1.35", ("mutating-admission-policy",))]
    }

    assert kinds["1.29", ()] == set()
    assert "MutatingAdmissionPolicy" not in kinds["1.33", ()] | kinds["1.35", ()]
    assert "ValidatingAdmissionPolicy" in kinds["1.33", ()]
    assert "MutatingAdmissionPolicy" in kinds["1.35", ("mutating-admission-policy",)]


def test_one_engine_at_a_time():
    """With Kyverno the native twins would refuse the same Pod a second time."""
    files = render(Options(features=frozenset(["kyverno"]))).files

    assert any("kyverno-policies" in path for path in files)
    assert not any("native-policies" in path for path in files)
