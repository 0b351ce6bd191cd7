variable "template_id" {
  type = string
}
resource "aws_eks_node_group" "gpu" {
  cluster_name   = "c"
  instance_types = ["g6e.12xlarge"]
  ami_type       = "AL2023_x86_64_NVIDIA"
  launch_template {
    id      = var.template_id
    version = "3"
  }
  node_repair_config {
    enabled = true
  }
}
