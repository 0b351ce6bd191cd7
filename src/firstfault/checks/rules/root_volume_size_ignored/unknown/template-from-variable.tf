variable "own_template" {
  type = bool
}
module "eks" {
  source  = "terraform-aws-modules/eks/aws"
  version = "~> 21.0"
  node_security_group_enable_recommended_rules = true
  addons = {
    vpc-cni = { before_compute = true }
    eks-node-monitoring-agent = {}
  }
  eks_managed_node_groups = {
    system = {
      instance_types             = ["m7i.large"]
      disk_size                  = 100
      use_custom_launch_template = var.own_template
    }
  }
}
