# Kernel log and diagnostics of a node are pushed here before the node is retired.
resource "aws_s3_bucket" "evidence" {
  bucket_prefix = "${var.name}-evidence-"
}

resource "aws_s3_bucket_public_access_block" "evidence" {
  bucket                  = aws_s3_bucket.evidence.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_lifecycle_configuration" "evidence" {
  bucket = aws_s3_bucket.evidence.id

  rule {
    id     = "keep-for-half-a-year"
    status = "Enabled"

    filter {}

    expiration {
      days = 180
    }
  }
}

data "aws_iam_policy_document" "assume" {
  statement {
    actions = ["sts:AssumeRole", "sts:TagSession"]
    principals {
      type        = "Service"
      identifiers = ["pods.eks.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "evidence" {
  statement {
    sid       = "PutEvidence"
    actions   = ["s3:PutObject"]
    resources = ["${aws_s3_bucket.evidence.arn}/*"]
  }
}

resource "aws_iam_role" "evidence" {
  name               = "${var.name}-evidence"
  assume_role_policy = data.aws_iam_policy_document.assume.json
}

resource "aws_iam_role_policy" "evidence" {
  name   = "put-evidence"
  role   = aws_iam_role.evidence.name
  policy = data.aws_iam_policy_document.evidence.json
}

resource "aws_eks_pod_identity_association" "evidence" {
  cluster_name    = module.eks.cluster_name
  namespace       = "firstfault"
  service_account = "evidence"
  role_arn        = aws_iam_role.evidence.arn
}
