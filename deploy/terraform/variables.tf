variable "name" {
  description = "Name of the stack."
  type        = string
  default     = "integrahub"
}

variable "artifact_bucket" {
  description = "Bucket for the release, in the region of the stack."
  type        = string
}

variable "artifact_prefix" {
  description = "Prefix of all releases in that bucket; each release has a folder named by its version."
  type        = string
  default     = "integrahub"
}

variable "artifact_kms_key_arn" {
  description = "Key that encrypts the uploaded objects; null uses the bucket's own key."
  type        = string
  default     = null
}

variable "release" {
  description = "Folder of the unpacked release; null means the folder of this module."
  type        = string
  default     = null
}

variable "parameters" {
  description = "Parameters of the template, by name; lists as strings separated by commas. A missing parameter has the template's default."
  type        = map(string)
  default     = {}

  validation {
    condition     = !contains(keys(var.parameters), "ArtifactBucket") && !contains(keys(var.parameters), "ArtifactPrefix")
    error_message = "ArtifactBucket and ArtifactPrefix follow from artifact_bucket and artifact_prefix."
  }
}

variable "tags" {
  description = "Tags of the stack; CloudFormation adds them to every resource that it creates."
  type        = map(string)
  default     = {}
}
