# Applied in the management account: the guard must be out of reach of the accounts that it guards.

variable "account_ids" {
  description = "Accounts with GPU clusters"
  type        = set(string)
  default     = []
}

locals {
  # Terraform's own role; the load-balancer controller, which adds rules to node groups; and the CNI of the nodes.
  may_edit   = ["arn:aws:iam::*:role/terraform", "arn:aws:iam::*:role/aws-load-balancer-controller"]
  may_attach = concat(local.may_edit, ["arn:aws:iam::*:role/*-eks-node-group-*"])
}

data "aws_iam_policy_document" "guard" {
  # Calls that edit rules, and calls that take the guard's tag away. DeleteTags without a list of tags removes all of
  # them, so the condition is on the group's tag, not on the tags of the request.
  statement {
    sid    = "GuardSecurityGroups"
    effect = "Deny"
    actions = [
      "ec2:AuthorizeSecurityGroup*",
      "ec2:CreateTags",
      "ec2:DeleteSecurityGroup",
      "ec2:DeleteTags",
      "ec2:ModifySecurityGroupRules",
      "ec2:RevokeSecurityGroup*",
    ]
    resources = ["arn:aws:ec2:*:*:security-group/*"]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/firstfault/guarded"
      values   = ["true"]
    }
    condition {
      test     = "ArnNotLike"
      variable = "aws:PrincipalArn"
      values   = local.may_edit
    }
  }

  # Another group on a node's interface has the effect of removing all rules of the guarded one.
  statement {
    sid       = "GuardInterfaces"
    effect    = "Deny"
    actions   = ["ec2:ModifyNetworkInterfaceAttribute"]
    resources = ["arn:aws:ec2:*:*:network-interface/*"]

    condition {
      test     = "Null"
      variable = "aws:ResourceTag/cluster.k8s.amazonaws.com/name"
      values   = ["false"]
    }
    condition {
      test     = "ArnNotLike"
      variable = "aws:PrincipalArn"
      values   = local.may_attach
    }
  }
}

resource "aws_organizations_policy" "guard" {
  name        = "gpu-security-groups"
  description = "Only Terraform changes what training between nodes depends on"
  type        = "SERVICE_CONTROL_POLICY"
  content     = data.aws_iam_policy_document.guard.json
}

resource "aws_organizations_policy_attachment" "guard" {
  for_each = var.account_ids

  policy_id = aws_organizations_policy.guard.id
  target_id = each.value
}
