resource "aws_s3_bucket" "evidence" {
  bucket = "gpu-evidence"
}
resource "aws_s3_bucket_lifecycle_configuration" "evidence" {
  bucket = aws_s3_bucket.evidence.id
  rule {
    id     = "all"
    status = "Enabled"
    expiration {
      days = 7
    }
  }
}
