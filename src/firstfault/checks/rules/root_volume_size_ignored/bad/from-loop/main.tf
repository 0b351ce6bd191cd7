variable "sizes" {
  type    = map(number)
  default = { small = 50, large = 300 }
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
    for name, size in var.sizes : name => {
      instance_types = ["m7i.xlarge"]
      disk_size      = size
    }
  }
}
