module "vpc" {
  source  = "terraform-aws-modules/vpc/aws"
  version = "~> 6.0"

  name = var.name
  cidr = var.vpc_cidr

  azs             = ["${var.region}a", "${var.region}c"]
  private_subnets = [cidrsubnet(var.vpc_cidr, 4, 0), cidrsubnet(var.vpc_cidr, 4, 1)]
  public_subnets  = [cidrsubnet(var.vpc_cidr, 8, 200), cidrsubnet(var.vpc_cidr, 8, 201)]

  enable_nat_gateway = true
  single_nat_gateway = true

  # Drills refuse interfaces and groups that do not carry this tag.
  tags = { "firstfault/drill" = "allowed" }
}

# A second group on the same interfaces. An interface obeys the union of its groups.
resource "aws_security_group" "aux" {
  name        = "${var.name}-aux"
  description = "Second group of the GPU nodes"
  vpc_id      = module.vpc.vpc_id

  tags = { "firstfault/drill" = "allowed" }
}

resource "aws_vpc_security_group_ingress_rule" "aux_vpc" {
  count = var.enable_aux_sg_vpc_allow ? 1 : 0

  description       = "All traffic within the VPC"
  security_group_id = aws_security_group.aux.id
  ip_protocol       = "-1"
  cidr_ipv4         = var.vpc_cidr
}

# Stays when the node group loses its egress: together the two groups still let the nodes out.
resource "aws_vpc_security_group_egress_rule" "aux_all" {
  description       = "All egress"
  security_group_id = aws_security_group.aux.id
  ip_protocol       = "-1"
  cidr_ipv4         = "0.0.0.0/0"
}
