module "eks" {
  source  = "terraform-aws-modules/eks/aws"
  version = "~> 21.0"
  compute_config = {
    enabled    = true
    node_pools = ["general-purpose"]
  }
}
resource "helm_release" "plugin" {
  name  = "nvdp"
  chart = "nvidia-device-plugin"
}
