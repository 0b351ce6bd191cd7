# As users of v21 write it: data sources, locals, a VPC module, a map of groups built by a loop.
data "aws_availability_zones" "available" {
  filter {
    name   = "opt-in-status"
    values = ["opt-in-not-required"]
  }
}

data "aws_caller_identity" "current" {}

locals {
  name   = "ex-${replace(basename(path.cwd), "_", "-")}"
  region = "eu-west-1"
  azs    = slice(data.aws_availability_zones.available.names, 0, 3)

  gpu_groups = {
    for az in ["a", "b"] : "gpu-${az}" => {
      ami_type       = "AL2023_x86_64_NVIDIA"
      instance_types = ["g6.12xlarge"]
      min_size       = 0
      max_size       = 4
      desired_size   = 2
      block_device_mappings = {
        xvda = {
          device_name = "/dev/xvda"
          ebs         = { volume_size = 300, volume_type = "gp3", throughput = 500 }
        }
      }
      node_repair_config = { enabled = true }
    }
  }

  tags = {
    Example    = local.name
    GithubRepo = "terraform-aws-eks"
  }
}

provider "aws" {
  region = local.region
}

module "vpc" {
  source  = "terraform-aws-modules/vpc/aws"
  version = "~> 6.0"

  name = local.name
  cidr = "10.0.0.0/16"

  azs             = local.azs
  private_subnets = [for k, v in local.azs : cidrsubnet("10.0.0.0/16", 4, k)]
  public_subnets  = [for k, v in local.azs : cidrsubnet("10.0.0.0/16", 8, k + 48)]
}

module "eks" {
  source  = "terraform-aws-modules/eks/aws"
  version = "~> 21.0"

  name               = local.name
  kubernetes_version = "1.33"

  addons = {
    coredns                   = {}
    eks-node-monitoring-agent = {}
    eks-pod-identity-agent = {
      before_compute = true
    }
    kube-proxy = {}
    vpc-cni = {
      before_compute = true
    }
  }

  vpc_id     = module.vpc.vpc_id
  subnet_ids = module.vpc.private_subnets

  eks_managed_node_groups = merge(
    local.gpu_groups,
    {
      default = {
        instance_types = ["m7i.large"]
        min_size       = 1
        max_size       = 3
        desired_size   = 1
      }
    },
  )

  access_entries = {
    admin = {
      principal_arn = "arn:aws:iam::${data.aws_caller_identity.current.account_id}:role/admin"
    }
  }

  tags = local.tags
}
