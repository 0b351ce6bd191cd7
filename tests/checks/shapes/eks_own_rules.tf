# The recommended rules off on purpose, with rules of one's own.
module "eks" {
  source  = "terraform-aws-modules/eks/aws"
  version = "~> 20.0"

  cluster_name    = "own"
  cluster_version = "1.31"

  node_security_group_enable_recommended_rules = false
  node_security_group_additional_rules = {
    ingress_self_all = {
      description = "Node to node all ports/protocols"
      protocol    = "-1"
      from_port   = 0
      to_port     = 0
      type        = "ingress"
      self        = true
    }
    egress_all = {
      description = "Node all egress"
      protocol    = "-1"
      from_port   = 0
      to_port     = 0
      type        = "egress"
      cidr_blocks = ["0.0.0.0/0"]
    }
  }

  self_managed_node_groups = {
    gpu = {
      ami_type      = "AL2023_x86_64_NVIDIA"
      instance_type = "g5.12xlarge"
      min_size      = 1
      max_size      = 4
      desired_size  = 2
      block_device_mappings = {
        xvda = {
          device_name = "/dev/xvda"
          ebs         = { volume_size = 200, volume_type = "gp3" }
        }
      }
    }
  }
}
