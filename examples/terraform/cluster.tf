module "eks" {
  source  = "terraform-aws-modules/eks/aws"
  version = "~> 21.0"

  name               = var.name
  kubernetes_version = "1.35"

  vpc_id     = module.vpc.vpc_id
  subnet_ids = module.vpc.private_subnets

  endpoint_public_access                   = true
  enable_cluster_creator_admin_permissions = true

  # Written out, so that a new default of the module changes nothing here.
  node_security_group_enable_recommended_rules = var.node_sg_enable_recommended_rules

  # The tag by which the organisation's policy guards the group (organization/guard.tf), and the drills' opt-in.
  node_security_group_tags = {
    "firstfault/guarded" = "true"
    "firstfault/drill"   = "allowed"
  }

  addons = {
    coredns    = {}
    kube-proxy = {}

    # Before the nodes: they become Ready only with a CNI.
    vpc-cni                = { before_compute = true }
    eks-pod-identity-agent = { before_compute = true }

    # Reports GPU conditions; node repair acts on them.
    eks-node-monitoring-agent = {}
  }

  eks_managed_node_groups = {
    system = {
      ami_type       = "AL2023_x86_64_STANDARD"
      instance_types = ["m7i.large"]
      min_size       = 1
      max_size       = 2
      desired_size   = 1
    }

    gpu = {
      ami_type       = "AL2023_x86_64_NVIDIA"
      instance_types = ["g5.xlarge"]
      min_size       = 0
      max_size       = 2
      desired_size   = var.gpu_desired_size

      subnet_ids             = [module.vpc.private_subnets[0]]
      vpc_security_group_ids = [aws_security_group.aux.id]

      # disk_size has no effect in a group with a launch template of its own, which is the module's default.
      block_device_mappings = {
        root = {
          device_name = "/dev/xvda"
          ebs = {
            volume_size           = 200
            volume_type           = "gp3"
            encrypted             = true
            delete_on_termination = true
          }
        }
      }

      # The quota of 8 vCPUs is exactly two g5.xlarge. MINIMAL ends an old node before it starts the new one. Where the
      # provider is older: scale down (gpu_desired_size=0), apply the change of the template, scale up.
      update_config = {
        max_unavailable = 1
        update_strategy = "MINIMAL"
      }

      node_repair_config = { enabled = true }

      labels = { "nvidia.com/gpu.present" = "true" }
      taints = {
        gpu = {
          key    = "nvidia.com/gpu"
          value  = "present"
          effect = "NO_SCHEDULE"
        }
      }
    }
  }
}

# The image brings driver and toolkit; the operator brings device plugin, exporter and validation.
resource "helm_release" "gpu_operator" {
  name             = "gpu-operator"
  namespace        = "gpu-operator"
  create_namespace = true
  repository       = "https://helm.ngc.nvidia.com/nvidia"
  chart            = "gpu-operator"
  version          = "v26.3.1"

  values = [yamlencode({
    driver  = { enabled = false }
    toolkit = { enabled = false }

    # Milliseconds. The default of 30 s is half of the minute in which somebody should know.
    dcgmExporter = { env = [{ name = "DCGM_EXPORTER_INTERVAL", value = "5000" }] }
  })]

  depends_on = [module.eks]
}
