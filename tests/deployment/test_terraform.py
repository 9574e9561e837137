"""The Terraform module: an upgrade keeps the code of the release before until the stack no longer needs it."""

import re
import shutil
import subprocess

import pytest
from cloudformation import ROOT

MODULE = (ROOT / "deploy/terraform/main.tf").read_text()

# The module's resources in the same relation, of a kind that Terraform itself makes.
MODEL = """
variable "release" {{ type = string }}
resource "terraform_data" "release" {{
  for_each = toset(["${{var.release}}/template.yaml", "${{var.release}}/function.zip"])
  input    = each.key
{release}
}}
resource "terraform_data" "stack" {{
  input = terraform_data.release["${{var.release}}/template.yaml"].input
  depends_on = [terraform_data.release]
}}
"""


def resource(kind):
    """The body of the module's one resource of a kind."""
    (body,) = re.findall(rf'^resource "{kind}" "[^"]+" {{$(.*?)^}}$', MODULE, re.MULTILINE | re.DOTALL)
    return body


def lifecycle(kind):
    return "".join(re.findall(r"^  lifecycle {$.*?^  }$", resource(kind), re.MULTILINE | re.DOTALL))


def test_the_objects_of_a_release_are_made_before_and_removed_after_what_depends_on_them():
    assert "create_before_destroy = true" in lifecycle("aws_s3_object")
    assert "depends_on = [aws_s3_object.release]" in resource("aws_cloudformation_stack")
    # Otherwise an object of the new release would replace the old one's under the same key.
    assert "${local.version}/${name}" in MODULE and 'key         = "${var.artifact_prefix}/${each.key}"' in MODULE


@pytest.mark.skipif(not shutil.which("terraform"), reason="Terraform is not installed")
def test_an_upgrade_adds_then_updates_then_removes(tmp_path):
    (tmp_path / "main.tf").write_text(MODEL.format(release=lifecycle("aws_s3_object")))

    def terraform(*arguments):
        done = subprocess.run(["terraform", f"-chdir={tmp_path}", *arguments, "-no-color"], capture_output=True, text=True, timeout=1200)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    terraform("init")
    terraform("apply", "-auto-approve", "-var=release=1")
    log = terraform("apply", "-auto-approve", "-var=release=2")
    steps = [log.index(step) for step in ("Creation complete", "stack: Modifications complete", "Destroying...")]
    assert steps == sorted(steps), log
    assert log.rindex("Creation complete") < log.index("stack: Modifying"), log
