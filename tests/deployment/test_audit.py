"""Each request becomes an audit event: the logs of all functions behind the API are read, and no other."""

import pytest
from cloudformation import deploy, references
from scenarios import EVERYTHING, GATEWAY, SCENARIOS

PATTERN = '{ ($.event_type = "request.completed") && (($.context.tenant = "*") || ($.context.outcome != "done")) }'


def behind_the_api(stack):
    """The functions that an API may invoke."""
    permissions = stack.of("AWS::Lambda::Permission").items()
    return {name.removesuffix("Permission") for name, each in permissions if each["Properties"]["Principal"] == "apigateway.amazonaws.com"}


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_log_of_each_function_behind_the_api_is_read_and_no_other(name):
    stack = deploy(SCENARIOS[name])
    filters = stack.of("AWS::Logs::SubscriptionFilter")
    read = {group for each in filters.values() for group in references(each["Properties"]["LogGroupName"])}
    assert read == {f"{function.removesuffix('Function')}Logs" for function in behind_the_api(stack)}
    for logical, each in filters.items():
        assert each["Properties"]["FilterPattern"] == PATTERN, logical
        assert references(each["Properties"]["DestinationArn"]) == {"AuditFunction"}, logical


def test_the_function_reads_neither_its_own_log_nor_what_it_writes():
    stack = deploy(EVERYTHING)
    read = str([each["Properties"]["LogGroupName"] for each in stack.of("AWS::Logs::SubscriptionFilter").values()])
    assert "AuditLogs" not in read and "AuditEventLogs" not in read


def test_each_log_may_invoke_the_function_and_nothing_else_of_the_account_may():
    stack = deploy(EVERYTHING)
    found = [each["Properties"] for each in stack.of("AWS::Lambda::Permission").values() if references(each["Properties"]["FunctionName"]) == {"AuditFunction"}]
    assert len(found) == len(stack.of("AWS::Logs::SubscriptionFilter"))
    for permission in found:
        assert permission["Principal"] == "logs.amazonaws.com" and permission["SourceAccount"] == "111122223333"
        (group,) = references(permission["SourceArn"])
        assert group.endswith("Logs") and group != "AuditLogs"


def test_audit_events_are_kept_for_a_time_of_their_own_and_may_be_switched_off():
    stack = deploy({**GATEWAY, "AuditRetentionDays": "2557", "LogRetentionDays": "7"})
    assert int(stack.properties("AuditEventLogs")["RetentionInDays"]) == 2557
    assert int(stack.properties("ProduceLogs")["RetentionInDays"]) == 7
    without = deploy({**EVERYTHING, "Audit": "false"})
    assert not without.of("AWS::Logs::SubscriptionFilter") and not {"AuditFunction", "AuditErrorsAlarm"} & set(without.resources)
    # Emptied by its own retention, and there if it is switched on again.
    assert "AuditEventLogs" in without.resources


def test_the_trail_covers_keys_records_batches_results_and_payloads():
    stack = deploy(EVERYTHING)
    selectors = stack.properties("AuditTrail")["AdvancedEventSelectors"]
    covered = {name for selector in selectors for field in selector["FieldSelectors"] if field["Field"] == "resources.ARN" for name in references(field)}
    assert covered == {"AccessTable", "IdempotencyTable", "BatchesTable", "ResultsBucket", "PayloadBucket"}
