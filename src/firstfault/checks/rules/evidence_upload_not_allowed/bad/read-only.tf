resource "aws_s3_bucket" "evidence" {
  bucket = "gpu-evidence"
}
resource "aws_iam_role" "collector" {
  name               = "evidence-collector"
  assume_role_policy = "{}"
}
resource "aws_iam_role_policy" "collector" {
  role = aws_iam_role.collector.name
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect   = "Allow"
      Action   = ["s3:GetObject"]
      Resource = "arn:aws:s3:::gpu-evidence/*"
    }]
  })
}
