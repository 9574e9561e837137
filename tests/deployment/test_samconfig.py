"""samconfig.toml, read by SAM CLI's own parser."""

import re
import tomllib

import pytest
from cloudformation import ROOT, allowed, refusals, source
from samcli.cli.types import CfnParameterOverridesType

CONFIG = ROOT / "samconfig.toml"


def read(config):
    return tomllib.loads(config)


def overrides(entries):
    """What SAM CLI takes a list of parameter_overrides for."""
    return CfnParameterOverridesType().convert(entries, None, None)


@pytest.mark.parametrize("environment, asks", [("default", False), ("production", True)])
def test_production_shows_its_changes_and_asks_and_a_stack_to_try_things_does_not(environment, asks):
    assert read(CONFIG.read_text())[environment]["deploy"]["parameters"]["confirm_changeset"] is asks


@pytest.mark.parametrize("environment", ["default", "production"])
def test_its_parameters_are_the_template_s_and_all_of_them_arrive(environment):
    entries = read(CONFIG.read_text())[environment]["global"]["parameters"]["parameter_overrides"]
    given = overrides(entries)
    assert len(given) == len(entries)
    for name, value in given.items():
        assert allowed(name, value), f"{name}={value}"
    assert refusals(given) == []


def test_production_shifts_requests_gradually_and_names_nothing_that_an_account_may_refuse():
    given = overrides(read(CONFIG.read_text())["production"]["global"]["parameters"]["parameter_overrides"])
    assert given["Rollout"] != source()["Parameters"]["Rollout"]["Default"]
    # Accounts with a concurrency quota of less than 110 refuse it.
    assert "MqAccessReservedConcurrency" not in given


def test_production_refuses_items_that_would_clear_members():
    given = overrides(read(CONFIG.read_text())["production"]["global"]["parameters"]["parameter_overrides"])
    assert (given["PartialItems"], source()["Parameters"]["PartialItems"]["Default"]) == ("refuse", "warn")


def test_in_production_no_tenant_takes_an_establishment_by_loading_it_first():
    given = overrides(read(CONFIG.read_text())["production"]["global"]["parameters"]["parameter_overrides"])
    assert (given["EstablishmentOwners"], source()["Parameters"]["EstablishmentOwners"]["Default"]) == ("entry", "first")


def test_no_environment_reads_the_secrets_of_another_in_the_same_account():
    configuration = read(CONFIG.read_text())
    environments = [name for name in configuration if name != "version"]
    assert len(environments) > 1
    given = [overrides(configuration[name]["global"]["parameters"]["parameter_overrides"]) for name in environments]
    prefixes = [parameters.get("SecretNamePrefix", source()["Parameters"]["SecretNamePrefix"]["Default"]) for parameters in given]
    for number, prefix in enumerate(prefixes):
        assert not [other for place, other in enumerate(prefixes) if place != number and other.startswith(prefix)], prefixes


def test_a_commented_parameter_is_one_of_the_template_too():
    for name, value in re.findall(r'^\s*# "(\w+)=(.*)",$', CONFIG.read_text(), re.MULTILINE):
        assert allowed(name, value), f"{name}={value}"


def test_a_value_with_spaces_keeps_all_its_entries_when_it_is_quoted_as_the_file_says():
    (example,) = re.findall(r"^#\s+('InlineTargets=.*'),$", CONFIG.read_text(), re.MULTILINE)
    (entry,) = tomllib.loads(f"x = [{example}]")["x"]
    assert overrides([entry])["InlineTargets"].split() == [
        "rabbitmq://a.example.com:5671/ORDERS.*",
        "rabbitmq://b.example.com:5671/STOCK.*",
    ]
    # What the quotes are for.
    assert len(overrides([entry.replace('"', "")])["InlineTargets"].split()) == 1
