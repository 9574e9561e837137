"""Packs built functions, and writes the template that refers to them in the deployer's bucket."""

import argparse
import json
import os
import zipfile
from datetime import datetime, timezone
from pathlib import Path

import yaml

FUNCTION = "AWS::Serverless::Function"
VERSION_TRIGGERS = ("GatewayVersionTrigger", "IngestVersionTrigger")


class Template(yaml.SafeLoader):
    """Reads CloudFormation's short forms (!Ref) as long forms ({"Ref": …})."""


def long_form(loader, suffix, node):
    if isinstance(node, yaml.ScalarNode):
        value = loader.construct_scalar(node)
    elif isinstance(node, yaml.SequenceNode):
        value = loader.construct_sequence(node, deep=True)
    else:
        value = loader.construct_mapping(node, deep=True)
    if suffix == "GetAtt" and isinstance(value, str):
        value = value.split(".", 1)
    return {suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}": value}


Template.add_multi_constructor("!", long_form)


def pack(binary, target):
    """A zip of one executable. Only its bytes and the commit's time determine the zip."""
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))
    entry = zipfile.ZipInfo("bootstrap", datetime.fromtimestamp(epoch, timezone.utc).timetuple()[:6])
    entry.external_attr = 0o100755 << 16
    entry.create_system = 3
    entry.compress_type = zipfile.ZIP_DEFLATED
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(entry, binary.read_bytes(), compresslevel=9)


def binary_of(resource):
    return resource["Metadata"]["BuildProperties"]["Binary"]


def packaged(template, version):
    """The template with references to the zips instead of the sources."""
    template.get("Globals", {}).get("Function", {}).pop("CodeUri", None)
    for resource in template["Resources"].values():
        if resource["Type"] != FUNCTION:
            continue
        name = binary_of(resource)
        [architecture] = resource["Properties"]["Architectures"]
        folder = "${Architecture}" if isinstance(architecture, dict) else architecture
        key = f"${{ArtifactPrefix}}/functions/{folder}/{name}.zip"
        resource["Properties"]["CodeUri"] = {"Bucket": {"Ref": "ArtifactBucket"}, "Key": {"Fn::Sub": key}}
        del resource["Metadata"]
    # The text of a function is the same in each release, so SAM would publish no version for
    # another place of the code.
    for name in VERSION_TRIGGERS:
        [container] = template["Resources"][name]["Properties"]["ContainerDefinitions"]
        container["Environment"].append({"Name": "ARTIFACTS", "Value": {"Fn::Sub": "${ArtifactBucket}/${ArtifactPrefix}"}})
    template["Parameters"] = {
        "ArtifactBucket": {
            "Type": "String",
            "Description": "Bucket in the stack's region to which the release was copied.",
            "AllowedPattern": "^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
        },
        "ArtifactPrefix": {
            "Type": "String",
            "Default": f"integrahub/{version}",
            "Description": "Prefix of the release in that bucket, without a slash at either end.",
        },
        **template["Parameters"],
    }
    groups = template.get("Metadata", {}).get("AWS::CloudFormation::Interface", {}).get("ParameterGroups")
    if groups is not None:
        groups.insert(0, {"Label": {"default": "The release"}, "Parameters": ["ArtifactBucket", "ArtifactPrefix"]})
    return template


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--template", type=Path, required=True)
    parser.add_argument("--built", type=Path, required=True, help="folder with lambda-ARCHITECTURE/NAME/bootstrap")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--version", required=True)
    arguments = parser.parse_args()
    template = yaml.load(arguments.template.read_text(), Template)
    sizes = {}
    for folder in sorted(arguments.built.glob("lambda-*")):
        architecture = folder.name.removeprefix("lambda-")
        for binary in sorted(folder.glob("*/bootstrap")):
            target = arguments.output / "functions" / architecture / f"{binary.parent.name}.zip"
            pack(binary, target)
            sizes[f"{architecture}/{target.name}"] = target.stat().st_size
    result = packaged(template, arguments.version)
    text = yaml.safe_dump(result, sort_keys=False, width=150, allow_unicode=True)
    (arguments.output / "template.yaml").write_text(text)
    (arguments.output / "VERSION").write_text(arguments.version + "\n")
    print(json.dumps(sizes, indent=1))


if __name__ == "__main__":
    main()
