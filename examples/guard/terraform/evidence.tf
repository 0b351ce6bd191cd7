# firstfault guard: evidence - Kernel log and diagnostics leave the node before it is retired
# Serves: B11
# Bucket for evidence, and the role under which the collector of components/evidence writes to it.

resource "aws_s3_bucket" "firstfault_evidence" {
  bucket = "EVIDENCE-BUCKET"
}

resource "aws_s3_bucket_public_access_block" "firstfault_evidence" {
  bucket                  = aws_s3_bucket.firstfault_evidence.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_lifecycle_configuration" "firstfault_evidence" {
  bucket = aws_s3_bucket.firstfault_evidence.id

  rule {
    id     = "keep-for-half-a-year"
    status = "Enabled"

    filter {}

    expiration {
      days = 180
    }
  }
}

data "aws_iam_policy_document" "firstfault_evidence_trust" {
  statement {
    actions = ["sts:AssumeRole", "sts:TagSession"]
    principals {
      type        = "Service"
      identifiers = ["pods.eks.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "firstfault_evidence" {
  statement {
    sid       = "PutEvidence"
    actions   = ["s3:PutObject"]
    resources = ["${aws_s3_bucket.firstfault_evidence.arn}/*"]
  }
}

resource "aws_iam_role" "firstfault_evidence" {
  name               = "CLUSTER-firstfault-evidence"
  assume_role_policy = data.aws_iam_policy_document.firstfault_evidence_trust.json
}

resource "aws_iam_role_policy" "firstfault_evidence" {
  name   = "put-evidence"
  role   = aws_iam_role.firstfault_evidence.name
  policy = data.aws_iam_policy_document.firstfault_evidence.json
}

resource "aws_eks_pod_identity_association" "firstfault_evidence" {
  cluster_name    = "CLUSTER"
  namespace       = "firstfault"
  service_account = "evidence"
  role_arn        = aws_iam_role.firstfault_evidence.arn
}
