# The seed cluster's security-group rules as resources that need no provider: applying one authorizes the rule on the
# EC2 endpoint of the environment, destroying it revokes it. Eight of them hang from two switches: seven under one
# for_each, one under a count, as in terraform-aws-modules/eks with an auxiliary group beside it.

variable "enable_aux_sg_vpc_allow" {
  type    = bool
  default = true
}

variable "node_sg_enable_recommended_rules" {
  type    = bool
  default = true
}

variable "extra" {
  description = "For tests of a plan with a ninth change."
  type        = bool
  default     = true
}

variable "python" { type = string }
variable "node_sg" { type = string }
variable "aux_sg" { type = string }
variable "cluster_sg" { type = string }

locals {
  always = {
    cluster_443     = { group = var.node_sg, side = "ingress", rule = "tcp 443 443 ${var.cluster_sg}" }
    cluster_kubelet = { group = var.node_sg, side = "ingress", rule = "tcp 10250 10250 ${var.cluster_sg}" }
    dns_tcp         = { group = var.node_sg, side = "ingress", rule = "tcp 53 53 ${var.node_sg}" }
    dns_udp         = { group = var.node_sg, side = "ingress", rule = "udp 53 53 ${var.node_sg}" }
    aux_egress      = { group = var.aux_sg, side = "egress", rule = "-1 0 0 0.0.0.0/0" }
  }
  recommended = { for name, rule in {
    ephemeral     = { group = var.node_sg, side = "ingress", rule = "tcp 1025 65535 ${var.node_sg}" }
    webhook_4443  = { group = var.node_sg, side = "ingress", rule = "tcp 4443 4443 ${var.cluster_sg}" }
    webhook_6443  = { group = var.node_sg, side = "ingress", rule = "tcp 6443 6443 ${var.cluster_sg}" }
    webhook_8443  = { group = var.node_sg, side = "ingress", rule = "tcp 8443 8443 ${var.cluster_sg}" }
    webhook_9443  = { group = var.node_sg, side = "ingress", rule = "tcp 9443 9443 ${var.cluster_sg}" }
    webhook_10251 = { group = var.node_sg, side = "ingress", rule = "tcp 10251 10251 ${var.cluster_sg}" }
    egress_all    = { group = var.node_sg, side = "egress", rule = "-1 0 0 0.0.0.0/0" }
  } : name => rule if var.node_sg_enable_recommended_rules }
}

resource "terraform_data" "node" {
  for_each = merge(local.always, local.recommended)
  input    = { python = var.python, group = each.value.group, side = each.value.side, rule = each.value.rule }

  provisioner "local-exec" {
    command = "${self.input.python} ${path.module}/rule.py authorize ${self.input.side} ${self.input.group} ${self.input.rule}"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "${self.input.python} ${path.module}/rule.py revoke ${self.input.side} ${self.input.group} ${self.input.rule}"
  }
}

resource "terraform_data" "aux_vpc" {
  count = var.enable_aux_sg_vpc_allow ? 1 : 0
  input = { python = var.python, group = var.aux_sg, side = "ingress", rule = "-1 0 0 192.168.0.0/16" }

  provisioner "local-exec" {
    command = "${self.input.python} ${path.module}/rule.py authorize ${self.input.side} ${self.input.group} ${self.input.rule}"
  }
  provisioner "local-exec" {
    when    = destroy
    command = "${self.input.python} ${path.module}/rule.py revoke ${self.input.side} ${self.input.group} ${self.input.rule}"
  }
}

resource "terraform_data" "extra" {
  count = var.extra ? 1 : 0
  input = "nothing"
}

output "node_security_group_id" {
  value = var.node_sg
}

output "aux_security_group_id" {
  value = var.aux_sg
}
