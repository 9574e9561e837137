output "outputs" {
  description = "The stack's outputs, by name."
  value       = aws_cloudformation_stack.integrahub.outputs
}

output "api_url" {
  description = "URL of the API."
  value       = aws_cloudformation_stack.integrahub.outputs["ApiUrl"]
}

output "version" {
  description = "The release that is deployed."
  value       = local.version
}
