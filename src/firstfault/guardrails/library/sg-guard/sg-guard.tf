# In the management account: a service control policy for the accounts with GPU clusters.
# Without an organisation, attach sg-guard.json to the roles and groups of people instead (aws_iam_policy); whoever may
# change IAM can then take it away again.

variable "gpu_account_ids" {
  description = "Accounts with GPU clusters"
  type        = set(string)
  default     = []
}

resource "aws_organizations_policy" "gpu_security_groups" {
  name        = "firstfault-gpu-security-groups"
  description = "Only Terraform changes what training between nodes depends on"
  type        = "SERVICE_CONTROL_POLICY"
  content     = file("${path.module}/sg-guard.json")
}

resource "aws_organizations_policy_attachment" "gpu_security_groups" {
  for_each = var.gpu_account_ids

  policy_id = aws_organizations_policy.gpu_security_groups.id
  target_id = each.value
}
