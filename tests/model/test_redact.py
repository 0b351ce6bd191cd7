"""Redaction: what must go, and what must stay."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firstfault.model.redact import redact, redact_lines

GO = {
    "key AKIAIOSFODNN7EXAMPLE used": "key <aws-key-id> used",
    "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY": "AWS_SECRET_ACCESS_KEY=<aws-secret>",
    '{"SecretAccessKey": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}': '{"SecretAccessKey": "<aws-secret>"}',
    "HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyzABCDEFGH x": "HF_TOKEN=<hf-token> x",
    "token ghp_" + "a1" * 18: "token <github-token>",
    "WANDB_API_KEY=" + "0123456789abcdef0123456789abcdef01234567": "WANDB_API_KEY=<wandb-key>",
    "wandb login 0123456789abcdef0123456789abcdef01234567": "wandb login <wandb-key>",
    "Authorization: Bearer abc123def456ghi789": "Authorization: Bearer <authorization>",
    "curl -H 'Authorization: Basic dXNlcjpwYXNz'": "curl -H 'Authorization: Basic <authorization>'",
    "t=eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlcm5ldGVz.c2lnbmF0dXJlLWhlcmU end": "t=<jwt> end",
    "postgres://mlflow:hunter22@db:5432/x": "postgres://mlflow:<url-password>@db:5432/x",
    "arn:aws:iam::123456789012:role/node": "arn:aws:iam::<account>:role/node",
    "image 123456789012.dkr.ecr.us-east-1.amazonaws.com/a:b": "image <account>.dkr.ecr.us-east-1.amazonaws.com/a:b",
    '"OwnerId": "123456789012",': '"OwnerId": "<account>",',
    "password: hunter2hunter2": "password: <password>",
    "kubeadm join 10.0.0.1:6443 --token abcdef.0123456789abcdef": "kubeadm join 10.0.0.1:6443 --token <join-token>",
    "?X-Amz-Credential=AKIA%2F20240101&X-Amz-Signature=deadbeef": "?X-Amz-Credential=<aws-signature>&X-Amz-Signature=<aws-signature>",
    "curl -H 'X-Api-Key: 1234567890abcdef1234'": "curl -H 'X-Api-Key: <password>'",
    "serve --hf-token abc123def456ghi789 --port 80": "serve --hf-token <secret> --port 80",
    "db --password=hunter --token=abcdefghij1234567": "db --password=<password> --token=<secret>",
    '"args":["--password","argpw4","--x"]': '"args":["--password","<secret>","--x"]',
    "args:\n- --db-password\n- argpw4": "args:\n- --db-password\n- <secret>",
    "      DB_PASSWORD:     plainpw-one": "      DB_PASSWORD:     <password>",
    "AZURE_STORAGE_KEY=abcd1234==": "AZURE_STORAGE_KEY=<password>",
    "MLFLOW_TRACKING_PASSWORD=abc": "MLFLOW_TRACKING_PASSWORD=<password>",
    "curl -u user:pwsecret https://x": "curl -u user:<secret> https://x",
    "Cookie: session=abcdefg; theme=dark": "Cookie: <cookie>",
    "key sk_live_51H8abcdefghijkl": "key <api-key>",
    '{"name":"S3_API_KEY","value":"it\'s \\"one\\" 77"},{"name":"A","value":"b"}': (
        '{"name":"S3_API_KEY","value":"<secret>"},{"name":"A","value":"b"}'
    ),
    '"{\\"name\\":\\"DB_PASSWORD\\",\\"value\\":\\"a\\\\\\"b 77\\"},{\\"name\\":\\"A\\"}"': (
        '"{\\"name\\":\\"DB_PASSWORD\\",\\"value\\":\\"<secret>\\"},{\\"name\\":\\"A\\"}"'
    ),
    "- name: POSTGRES_CONNECTION_STRING\n  value: host=db": "- name: POSTGRES_CONNECTION_STRING\n  value: <secret>",
    "a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY----- b": "a <private-key> b",
}  # fmt: skip

STAY = [
    "nccl-master-0:730:775 [0] NCCL INFO ncclCommInitRank comm 0x55d3c8a7e0f0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1e0 commId 0x8a3f5a1b2c3d4e5f - Init START",
    "[E419 13:27:42.301344821 socket.cpp:1011] [c10d] The client socket has timed out after 120000ms while trying to connect to (nccl-master, 29500).",
    "NVRM: Xid (PCI:0000:9d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "commit 0123456789abcdef0123456789abcdef01234567",
    'Back-off pulling image "registry.example/team/training-operator:5ef6c405df2bb1bf1d3ede988cd43433eff2e956"',
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:3356",
    "tokens: 8192 max_tokens=8192 pad_token=<pad> eos_token_id: 151645",
    'MountVolume.SetUp failed for volume "x" : secret "hf-token-secret" not found',
    "tcp://10.0.0.1:29500 http://host:8000/v1/models",
    "TCPStore(host=10.0.0.1, port=29500) key: /default_pg/0//worker/123456789012",
    "GPU-5a3f7c1e-893a-7cbb-c4cf-0123456789ab",
    "reconcileID=7a1e88bc-1169-4e4a-a4db-4ff689f2bd59 1731429849551905269",
    "Bearer authentication is required",
    "use --token to log in, or --password when asked; --max-token 512 --eos-token </s> --hf-token-file /etc/t",
    "def login(password: str = None, token=None): api_key=null",
    '{"name":"MAX_TOKENS","value":"8192"},{"name":"NCCL_IB_PKEY","value":"0x7fff"}',
    "cookie: 0x1f2e3d4c of request 7",
]


@pytest.mark.parametrize("text", GO)
def test_secrets_go(text):
    """A secret is replaced by the name of its kind."""
    assert redact(text) == GO[text]


@pytest.mark.parametrize("text", STAY)
def test_evidence_stays(text):
    """Lines that prove something come out as they went in."""
    assert redact(text) == text


@pytest.mark.parametrize("text", GO)
def test_twice_is_once(text):
    """Redaction is idempotent."""
    assert redact(redact(text)) == redact(text)


@given(st.lists(st.sampled_from([*GO, *STAY, " ", "=", ":", '"', "@", "token", "\n"])).map("".join))
def test_any_mixture_is_stable(text):
    """Secrets in any neighbourhood: redacting twice changes nothing more, and no key of a known shape survives."""
    once = redact(text)
    assert redact(once) == once
    assert "hunter22@" not in once


def test_a_private_key_over_many_lines_goes_as_a_whole():
    """Line by line, the body of a key is as secret as its head."""
    lines = [
        "before\n",
        "-----BEGIN PRIVATE KEY-----\n",
        "MIIEvQ\n",
        "AAAA\n",
        "-----END PRIVATE KEY-----\n",
        "after\n",
    ]
    assert list(redact_lines(lines)) == ["before\n", "<private-key>\n", "after\n"]


def test_a_key_without_an_end_does_not_hide_the_rest_for_ever():
    """A cut key hides 200 lines, not the whole log."""
    lines = ["-----BEGIN PRIVATE KEY-----\n", *["x\n"] * 300]
    assert len(list(redact_lines(lines))) == 101
