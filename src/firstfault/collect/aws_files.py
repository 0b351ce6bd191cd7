"""Looks at the files that the AWS SDK opens by name before it does: of a pipe it would wait for a writer for ever."""

from __future__ import annotations

import os
from pathlib import Path

from firstfault.model.files import refuse_special

__all__ = ["refuse_aws_pipes"]

# https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html; the last is of requests, which it obeys.
_FILES = {
    "AWS_CONFIG_FILE": "~/.aws/config",
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
    "AWS_WEB_IDENTITY_TOKEN_FILE": "",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "",
    "AWS_CA_BUNDLE": "",
    "REQUESTS_CA_BUNDLE": "",
}


def refuse_aws_pipes() -> None:
    """Refuse a configuration, credentials, token or certificate file of the AWS SDK that is a pipe, device or folder.

    Raises:
        InputError: Names the file and the variable that names it.
    """
    for variable, default in _FILES.items():
        name = os.environ.get(variable)
        if name or default:
            refuse_special(Path(name or default).expanduser(), f"the {variable} of the AWS SDK")
