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
      ami_type       = "BOTTLEROCKET_x86_64_NVIDIA"
      instance_types = ["g5.xlarge"]
      block_device_mappings = {
        os   = { device_name = "/dev/xvda", ebs = { volume_size = 8 } }
        data = { device_name = "/dev/xvdb", ebs = { volume_size = 200 } }
      }
      node_repair_config = { enabled = true }
    }
  }
}
