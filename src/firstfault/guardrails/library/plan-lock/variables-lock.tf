# Put these in the place of the root's own variables of these names. A validation that refers to another variable needs
# Terraform 1.9. Neither a default nor a tfvars file nor -var takes the rules away unless the same plan says that a drill
# is meant.

variable "node_sg_enable_recommended_rules" {
  description = "Passed to the EKS module: node self-reference 1025-65535/tcp, five webhook ports, the nodes' egress"
  type        = bool
  default     = true

  validation {
    condition     = var.node_sg_enable_recommended_rules || var.drill_approved
    error_message = "Without these rules distributed training is cut silently. For a drill: -var drill_approved=true."
  }
}

variable "enable_aux_sg_vpc_allow" {
  description = "All traffic within the VPC through an auxiliary group: a second path that hides the loss of the first"
  type        = bool
  default     = true

  validation {
    condition     = var.enable_aux_sg_vpc_allow || var.drill_approved
    error_message = "This path may be the only one left. For a drill: -var drill_approved=true."
  }
}

variable "drill_approved" {
  description = "Lifts the lock for the plan of a drill; never set it in a file"
  type        = bool
  default     = false
}
