variable "values" {
  type = string
}
module "eks" {
  source  = "terraform-aws-modules/eks/aws"
  version = "~> 21.0"
  compute_config = {
    enabled    = true
    node_pools = ["general-purpose"]
  }
}
resource "helm_release" "gpu_operator" {
  name       = "gpu-operator"
  repository = "https://helm.ngc.nvidia.com/nvidia"
  chart      = "gpu-operator"
  values = [var.values]
}
