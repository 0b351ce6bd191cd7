"""Terraform configurations and plans, read without running anything of them."""

from __future__ import annotations

from firstfault.checks.terraform.model import TerraformBlock, TerraformConfig, VariableValue

__all__ = ["TerraformBlock", "TerraformConfig", "VariableValue"]
