resource "aws_eks_cluster" "gpu" {
  name     = "gpu"
  role_arn = "arn:aws:iam::111122223333:role/eks"
  version  = "1.35"
  vpc_config {
    subnet_ids = ["subnet-1", "subnet-2"]
  }
}
