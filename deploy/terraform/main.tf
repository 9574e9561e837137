# Deploys a release of IntegraHub: uploads the zips and the template, and lets CloudFormation make the
# rest. The deployment stays one stack, with the template's rules, custom resource and protections.
# Terraform sees its parameters and outputs.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

locals {
  release = coalesce(var.release, abspath("${path.module}/.."))
  version = trimspace(file("${local.release}/VERSION"))
  prefix  = "${var.artifact_prefix}/${local.version}"
  # By release and name, so that another release has other resources than this one.
  files = {
    for name in setunion(fileset(local.release, "functions/*/*.zip"), ["template.yaml"]) : "${local.version}/${name}" => name
  }
}

# An upgrade first adds the objects of its release, then updates the stack, and last removes those of the
# release before. An update that fails ends the upgrade before that, so its rollback finds the former code.
# Without create_before_destroy, Terraform removes first.
resource "aws_s3_object" "release" {
  for_each = local.files

  bucket      = var.artifact_bucket
  key         = "${var.artifact_prefix}/${each.key}"
  source      = "${local.release}/${each.value}"
  source_hash = filemd5("${local.release}/${each.value}")
  kms_key_id  = var.artifact_kms_key_arn

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_cloudformation_stack" "integrahub" {
  name         = var.name
  template_url = "https://${data.aws_s3_bucket.artifacts.bucket_regional_domain_name}/${aws_s3_object.release["${local.version}/template.yaml"].key}"
  capabilities = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
  policy_body  = file("${local.release}/stack-policy.json")
  tags         = var.tags

  parameters = merge(var.parameters, {
    ArtifactBucket = var.artifact_bucket
    ArtifactPrefix = local.prefix
  })

  timeouts {
    create = "60m"
    # The slowest Rollout takes 100 minutes, and a rollback some more.
    update = "180m"
    delete = "60m"
  }

  # Tables, buckets and a database outlive the stack, but a stack that was deleted by mistake is an outage.
  lifecycle {
    prevent_destroy = true
  }

  depends_on = [aws_s3_object.release]
}

data "aws_s3_bucket" "artifacts" {
  bucket = var.artifact_bucket
}
