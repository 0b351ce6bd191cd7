resource "aws_eks_node_group" "gpu" {
  cluster_name   = "c"
  instance_types = ["p5.48xlarge"]
  ami_type       = "AL2023_x86_64_NVIDIA"
  node_repair_config {
    enabled = true
  }
}
