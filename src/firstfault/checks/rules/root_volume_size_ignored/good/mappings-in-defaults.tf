module "eks" {
  source  = "terraform-aws-modules/eks/aws"
  version = "~> 20.31"
  node_security_group_enable_recommended_rules = true
  cluster_addons = {
    vpc-cni = { before_compute = true }
    eks-node-monitoring-agent = {}
  }
  eks_managed_node_group_defaults = {
    block_device_mappings = {
      xvda = {
        device_name = "/dev/xvda"
        ebs         = { volume_size = 200 }
      }
    }
  }
  eks_managed_node_groups = {
    gpu = {
      ami_type           = "AL2023_x86_64_NVIDIA"
      instance_types     = ["g5.xlarge"]
      disk_size          = 200
      node_repair_config = { enabled = true }
    }
  }
}
