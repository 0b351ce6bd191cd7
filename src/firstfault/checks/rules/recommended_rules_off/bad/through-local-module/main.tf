variable "node_sg_enable_recommended_rules" {
  description = "Recommended rules of the node security group: training and webhooks need them"
  type        = bool
  default     = true

  validation {
    condition     = var.node_sg_enable_recommended_rules
    error_message = "Training needs the recommended rules."
  }
}
locals {
  recommended = var.node_sg_enable_recommended_rules
}
module "cluster" {
  source      = "./cluster"
  recommended = local.recommended
}
