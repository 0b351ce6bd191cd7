data "aws_caller_identity" "me" {}
data "aws_iam_policy_document" "guard" {
  statement {
    sid    = "GuardGroups"
    effect = "Deny"
    actions = [
      "ec2:AuthorizeSecurityGroup*",
      "ec2:RevokeSecurityGroup*",
      "ec2:ModifySecurityGroupRules",
      "ec2:CreateTags",
      "ec2:DeleteTags",
    ]
    resources = ["arn:aws:ec2:*:${data.aws_caller_identity.me.account_id}:security-group/*"]
    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/guarded"
      values   = ["true"]
    }
    condition {
      test     = "ArnNotLike"
      variable = "aws:PrincipalArn"
      values   = ["arn:aws:iam::${data.aws_caller_identity.me.account_id}:role/terraform"]
    }
  }
  statement {
    effect    = "Deny"
    actions   = ["ec2:ModifyNetworkInterfaceAttribute"]
    resources = ["*"]
    condition {
      test     = "ArnNotLike"
      variable = "aws:PrincipalArn"
      values   = ["arn:aws:iam::${data.aws_caller_identity.me.account_id}:role/terraform"]
    }
  }
}
resource "aws_organizations_policy" "guard" {
  name    = "guard"
  content = data.aws_iam_policy_document.guard.json
}
module "eks" {
  source  = "terraform-aws-modules/eks/aws"
  version = "~> 21.0"
  node_security_group_enable_recommended_rules = true
  addons = {
    vpc-cni = { before_compute = true }
    eks-node-monitoring-agent = {}
  }
  tags = { guarded = "true" }
  eks_managed_node_groups = {
    gpu = {
      ami_type       = "AL2023_x86_64_NVIDIA"
      instance_types = ["g5.xlarge"]
      min_size       = 2
      max_size       = 2
      desired_size   = 2
      block_device_mappings = {
        root = {
          device_name = "/dev/xvda"
          ebs         = { volume_size = 200, volume_type = "gp3" }
        }
      }
      node_repair_config = { enabled = true }
    }
  }
}
resource "aws_iam_role" "on_call" {
  name               = "on-call"
  assume_role_policy = "{}"
}
resource "aws_iam_role_policy_attachment" "on_call" {
  role       = aws_iam_role.on_call.name
  policy_arn = "arn:aws:iam::aws:policy/PowerUserAccess"
}
