module "eks" {
  source  = "terraform-aws-modules/eks/aws"
  version = "~> 21.0"
  node_security_group_enable_recommended_rules = true
  addons = {
    vpc-cni = { before_compute = true }
    eks-node-monitoring-agent = {}
  }
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
      taints = {
        gpu = { key = "nvidia.com/gpu", value = "present", effect = "NO_SCHEDULE" }
      }
    }
  }
}
