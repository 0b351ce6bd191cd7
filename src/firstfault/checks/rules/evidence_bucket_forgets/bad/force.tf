resource "aws_s3_bucket" "evidence" {
  bucket        = "gpu-evidence"
  force_destroy = true
}
