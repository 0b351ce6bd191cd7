output "node_security_group_id" {
  description = "The group that loses seven rules in the drill"
  value       = module.eks.node_security_group_id
}

output "aux_security_group_id" {
  description = "The group that hides it"
  value       = aws_security_group.aux.id
}

output "evidence_bucket" {
  description = "Where evidence goes"
  value       = aws_s3_bucket.evidence.bucket
}
