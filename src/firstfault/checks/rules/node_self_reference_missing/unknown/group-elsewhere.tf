resource "aws_security_group" "node" {
  name   = "gpu-nodes"
  vpc_id = "vpc-1"
}
resource "aws_vpc_security_group_egress_rule" "all" {
  security_group_id = aws_security_group.node.id
  ip_protocol       = "-1"
  cidr_ipv4         = "0.0.0.0/0"
}
resource "aws_launch_template" "gpu" {
  name                   = "gpu"
  vpc_security_group_ids = [data.aws_security_group.shared.id]
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
  scaling_config {
    min_size     = 2
    desired_size = 2
    max_size     = 2
  }
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
data "aws_security_group" "shared" {
  name = "shared"
}
