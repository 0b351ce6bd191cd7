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
      values   = ["arn:aws:iam::${data.aws_caller_identity.me.account_id}:role/terraform", aws_iam_role.lbc.arn]
    }
  }
  statement {
    effect    = "Deny"
    actions   = ["ec2:ModifyNetworkInterfaceAttribute"]
    resources = ["*"]
    condition {
      test     = "ArnNotLike"
      variable = "aws:PrincipalArn"
      values   = ["arn:aws:iam::${data.aws_caller_identity.me.account_id}:role/terraform", aws_iam_role.lbc.arn]
    }
  }
}
resource "aws_organizations_policy" "guard" {
  name    = "guard"
  content = data.aws_iam_policy_document.guard.json
}
resource "helm_release" "lbc" {
  name  = "aws-load-balancer-controller"
  chart = "aws-load-balancer-controller"
  set = [
    {
      name  = "serviceAccount.annotations.eks\\.amazonaws\\.com/role-arn"
      value = aws_iam_role.lbc.arn
    }
  ]
}
resource "aws_iam_role" "lbc" {
  name               = "ingress-lb-controller"
  assume_role_policy = "{}"
}
