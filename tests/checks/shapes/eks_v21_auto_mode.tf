module "eks" {
  source  = "registry.terraform.io/terraform-aws-modules/eks/aws"
  version = "21.14.0"

  name               = "auto"
  kubernetes_version = "1.33"

  endpoint_public_access                   = true
  enable_cluster_creator_admin_permissions = true

  compute_config = {
    enabled    = true
    node_pools = ["general-purpose"]
  }

  vpc_id     = "vpc-1234556abcdef"
  subnet_ids = ["subnet-abcde012", "subnet-bcde012a"]
}
