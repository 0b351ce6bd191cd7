variable "name" {
  description = "Name of the cluster"
  type        = string
  default     = "firstfault-gpu"
}

variable "region" {
  description = "Region; its quota for G and VT instances must be 8 vCPUs at least (L-DB2E81BA, 0 in new accounts)"
  type        = string
  default     = "ap-northeast-2"
}

variable "vpc_cidr" {
  description = "Address range of the VPC"
  type        = string
  default     = "192.168.0.0/16"
}

variable "gpu_desired_size" {
  description = "GPU nodes: 0 between lessons, 2 for distributed training"
  type        = number
  default     = 2
}

# The two toggles of the security-group drill. Either of the rules that they carry keeps training alive; both off cut it.
# Their validation is the lock: neither a pull request nor a tfvars file nor -var takes the rules away unless somebody
# says in the same plan that a drill is meant.

variable "node_sg_enable_recommended_rules" {
  description = "Node self-reference 1025-65535/tcp, five webhook ports and the nodes' egress: seven rules under one boolean"
  type        = bool
  default     = true

  validation {
    condition     = var.node_sg_enable_recommended_rules || var.drill_approved
    error_message = "Without these rules distributed training is cut in silence. For a drill: -var drill_approved=true."
  }
}

variable "enable_aux_sg_vpc_allow" {
  description = "All traffic within the VPC through the auxiliary group: a second path that hides the loss of the first"
  type        = bool
  default     = true

  validation {
    condition     = var.enable_aux_sg_vpc_allow || var.drill_approved
    error_message = "This rule is part of the drill's baseline. For a drill: -var drill_approved=true."
  }
}

variable "drill_approved" {
  description = "Lifts the lock for the plan of a drill; never set it in a file"
  type        = bool
  default     = false
}
