variable "name" {
  description = "Name of the stack."
  type        = string
  default     = "integrahub"
}

variable "artifact_bucket" {
  description = "Bucket in the same region that the release is uploaded to."
  type        = string
}

variable "artifact_prefix" {
  description = "Where in that bucket releases are; each has a folder of its version."
  type        = string
  default     = "integrahub"
}

variable "artifact_kms_key_arn" {
  description = "Key that the uploaded objects are encrypted with; null takes the bucket's own."
  type        = string
  default     = null
}

variable "release" {
  description = "Folder of the unpacked release; null is the one that this module lies in."
  type        = string
  default     = null
}

variable "parameters" {
  description = "Parameters of the template, by name; lists as texts separated by commas. What is missing has the template's default."
  type        = map(string)
  default     = {}

  validation {
    condition     = !contains(keys(var.parameters), "ArtifactBucket") && !contains(keys(var.parameters), "ArtifactPrefix")
    error_message = "ArtifactBucket and ArtifactPrefix follow from artifact_bucket and artifact_prefix."
  }
}

variable "tags" {
  description = "Tags of the stack, which CloudFormation gives to all that it makes."
  type        = map(string)
  default     = {}
}
