resource "aws_s3_bucket" "evidence" {
  bucket = "gpu-evidence"
}
resource "aws_s3_bucket_lifecycle_configuration" "evidence" {
  bucket = aws_s3_bucket.evidence.id
  rule {
    id     = "tmp"
    status = "Enabled"
    filter {
      prefix = "tmp/"
    }
    expiration {
      days = 1
    }
  }
  rule {
    id     = "old"
    status = "Enabled"
    expiration {
      days = 90
    }
  }
}
