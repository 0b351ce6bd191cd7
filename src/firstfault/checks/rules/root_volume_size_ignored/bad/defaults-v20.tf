module "eks" {
  source  = "terraform-aws-modules/eks/aws"
  version = "20.37.1"
  node_security_group_enable_recommended_rules = true
  cluster_addons = {
    vpc-cni = { before_compute = true }
    eks-node-monitoring-agent = {}
  }
  eks_managed_node_group_defaults = {
    disk_size = 100
  }
  eks_managed_node_groups = {
    system = {
      instance_types = ["m7i.large"]
    }
  }
}
