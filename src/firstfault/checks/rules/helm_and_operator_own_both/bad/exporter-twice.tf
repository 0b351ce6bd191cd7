resource "helm_release" "gpu_operator" {
  name       = "gpu-operator"
  repository = "https://helm.ngc.nvidia.com/nvidia"
  chart      = "gpu-operator"
}
resource "helm_release" "dcgm" {
  name  = "dcgm"
  chart = "dcgm-exporter"
}
