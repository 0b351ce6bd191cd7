"""Reads and changes security-group rules in EC2 for a drill: the groups, who uses them, and what may be restored."""

from __future__ import annotations

import datetime as dt
import os
from typing import Any

from firstfault.collect.aws_files import refuse_aws_pipes
from firstfault.errors import FirstFaultError, UnsupportedError

__all__ = ["Ec2", "Ec2Error"]


class Ec2Error(FirstFaultError):
    """EC2 refused a call or did not answer; `code` is its error code."""

    def __init__(self, what: str, todo: str = "", code: str = "") -> None:
        super().__init__(what, todo)
        self.code = code


_ADVICE = {
    "RequestExpired": "the credentials have lapsed: log in again, then `firstfault drill recover`",
    "ExpiredToken": "the credentials have lapsed: log in again, then `firstfault drill recover`",
    "ExpiredTokenException": "the credentials have lapsed: log in again, then `firstfault drill recover`",
    "UnauthorizedOperation": "the caller may not do this; nothing was changed by this call",
    "RequestLimitExceeded": "EC2 throttles the account: try again later",
}


class Ec2:
    """One account and region.

    Args:
        region: AWS region; None for the one that the environment names.

    Raises:
        UnsupportedError: boto3 is not installed.
        Ec2Error: No region or no credentials.
        InputError: A file of the AWS SDK is a pipe.
    """

    def __init__(self, region: str | None = None) -> None:
        try:
            import boto3  # noqa: PLC0415 - heavy, and only needed for drills on EKS
            from botocore.config import Config  # noqa: PLC0415
            from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415
        except ImportError as error:
            raise UnsupportedError(
                f"a drill on EKS needs the extra `live` ({error})", "pip install 'firstfault[live]'"
            ) from error
        refuse_aws_pipes()
        # RuntimeError: botocore's answer to credentials that have lapsed and cannot be renewed.
        self._errors = (BotoCoreError, ClientError, RuntimeError)
        config = Config(connect_timeout=5, read_timeout=20, retries={"max_attempts": 5, "mode": "standard"})
        try:
            self._session = boto3.Session(region_name=region)
            self._client = self._session.client("ec2", config=config)
        except self._errors as error:
            raise Ec2Error(f"EC2 cannot be used: {error}", "name the region with --region or AWS_REGION") from error
        self.region: str = self._client.meta.region_name

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _call(self, name: str, **arguments: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = getattr(self._client, name)(**arguments)
        except self._errors as error:
            code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
            raise Ec2Error(f"ec2:{name}: {error}", _ADVICE.get(code, ""), code) from error
        return answer

    def _all(self, name: str, key: str, **arguments: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while True:
            answer = self._call(name, **arguments)
            found += answer[key]
            if not answer.get("NextToken"):
                return found
            arguments["NextToken"] = answer["NextToken"]

    def groups(self, ids: list[str]) -> list[dict[str, Any]]:
        """Describe these groups, in the order of `ids`.

        Raises:
            Ec2Error: One does not exist, or the call is refused.
        """
        by_id = {
            each["GroupId"]: each for each in self._all("describe_security_groups", "SecurityGroups", GroupIds=ids)
        }
        return [by_id[group] for group in ids]

    def interfaces_of(self, groups: list[str]) -> list[dict[str, Any]]:
        """Describe every network interface that obeys one of these groups."""
        filters = [{"Name": "group-id", "Values": groups}]
        return self._all("describe_network_interfaces", "NetworkInterfaces", Filters=filters)

    def acls_of(self, subnets: list[str]) -> list[dict[str, Any]]:
        """Describe the network ACLs of these subnets."""
        filters = [{"Name": "association.subnet-id", "Values": subnets}]
        return self._all("describe_network_acls", "NetworkAcls", Filters=filters)

    def authorize(
        self, group: str, direction: str, permissions: list[dict[str, Any]], *, dry_run: bool = False
    ) -> None:
        """Add rules; one that is there already is left alone.

        Raises:
            Ec2Error: Refused.
        """
        for permission in permissions:
            try:
                self._change("authorize", group, direction, [permission], dry_run=dry_run)
            except Ec2Error as error:
                if error.code != "InvalidPermission.Duplicate":
                    raise

    def revoke(self, group: str, direction: str, permissions: list[dict[str, Any]]) -> None:
        """Remove rules; one that is gone already is left alone.

        Raises:
            Ec2Error: Refused.
        """
        for permission in permissions:
            try:
                self._change("revoke", group, direction, [permission])
            except Ec2Error as error:
                if error.code != "InvalidPermission.NotFound":
                    raise

    def _change(
        self, verb: str, group: str, direction: str, permissions: list[dict[str, Any]], *, dry_run: bool = False
    ) -> None:
        try:
            self._call(f"{verb}_security_group_{direction}", GroupId=group, IpPermissions=permissions, DryRun=dry_run)
        except Ec2Error as error:
            if error.code != "DryRunOperation":  # "would have succeeded"
                raise

    def credentials_expire(self) -> dt.datetime | None:
        """Return when the credentials in use lapse for good, or None when they renew themselves or do not say."""
        if os.environ.get("AWS_SESSION_TOKEN") and (stated := os.environ.get("AWS_CREDENTIAL_EXPIRATION")):
            try:
                return dt.datetime.fromisoformat(stated)
            except ValueError:
                return None
        return None
