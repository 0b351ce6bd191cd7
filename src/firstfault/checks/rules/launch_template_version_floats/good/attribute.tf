resource "aws_launch_template" "gpu" {
  name = "gpu"
  block_device_mappings {
    device_name = "/dev/xvda"
    ebs {
      volume_size = 200
    }
  }
}
resource "aws_eks_node_group" "gpu" {
  cluster_name   = "c"
  instance_types = ["g5.xlarge"]
  ami_type       = "AL2023_x86_64_NVIDIA"
  launch_template {
    id      = aws_launch_template.gpu.id
    version = aws_launch_template.gpu.latest_version
  }
  node_repair_config {
    enabled = true
  }
}
resource "aws_eks_addon" "monitoring" {
  cluster_name = "c"
  addon_name   = "eks-node-monitoring-agent"
}
