"""The API as an HTTP API or as a REST API: the same routes to the same functions, and one of the two is there."""

import json

import pytest
from cloudformation import deploy, source, translated, watched
from scenarios import DOMAIN, EXISTING_DATABASE, GATEWAY, LOAD_TESTS, REST, SCENARIOS, WEB_ACL

HTTP_KINDS = {"AWS::ApiGatewayV2::Api", "AWS::ApiGatewayV2::Stage"}
REST_KINDS = {"AWS::ApiGateway::RestApi", "AWS::ApiGateway::Deployment", "AWS::ApiGateway::Stage"}
ENDPOINTS = "vpce-11111111,vpce-22222222"


def api_of(stack):
    return "RestApi" if "RestApi" in stack.resources else "Api"


def operations(parameters):
    """What the API has at a path for a method."""
    stack = deploy(parameters)
    paths = stack.properties(api_of(stack))["Body"]["paths"]
    return {(method, path): operation for path, methods in paths.items() for method, operation in methods.items()}


def integrations(parameters):
    return {route: operation["x-amazon-apigateway-integration"] for route, operation in operations(parameters).items()}


def functions(parameters):
    """The functions of the API's routes."""
    return {route: integration["uri"].split("/functions/")[1].split("/")[0] for route, integration in integrations(parameters).items()}


@pytest.mark.parametrize("name", SCENARIOS)
def test_one_of_the_two_is_there(name):
    kinds = {resource["Type"] for resource in deploy(SCENARIOS[name]).resources.values()}
    there, gone = (REST_KINDS, HTTP_KINDS) if SCENARIOS[name].get("ApiFront") == "rest" else (HTTP_KINDS, REST_KINDS)
    assert there <= kinds and not gone & kinds


def test_an_http_api_keeps_its_names_so_that_an_update_keeps_its_address():
    assert {"Api", "ApiApiGatewayDefaultStage"} <= set(deploy().resources)
    assert deploy().properties("ApiApiGatewayDefaultStage")["StageName"] == "$default"


@pytest.mark.parametrize("parameters", [{}, EXISTING_DATABASE, LOAD_TESTS, {**EXISTING_DATABASE, **LOAD_TESTS}])
def test_both_have_the_same_routes_to_the_same_functions(parameters):
    http, rest = functions(parameters), functions({**parameters, **REST})
    # A REST API has a response of its own for everything else.
    assert http.pop(("x-amazon-apigateway-any-method", "$default")) == "«StatusFunctionAliaslive»"
    assert http == rest and len(http) > 10


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_api_that_is_there_may_call_its_functions_and_nothing_else_may(name):
    stack, allowed = deploy(SCENARIOS[name]), {}
    for resource in stack.of("AWS::Lambda::Permission").values():
        permission = resource["Properties"]
        if permission["Principal"] == "apigateway.amazonaws.com":
            assert permission["SourceArn"] == f"arn:aws:execute-api:us-east-1:111122223333:«{api_of(stack)}»/*"
            allowed[permission["FunctionName"]] = permission["Action"]
    assert allowed == dict.fromkeys(functions(SCENARIOS[name]).values(), "lambda:InvokeFunction")


def test_an_http_api_s_events_have_the_format_2():
    for parameters, version in ((GATEWAY, "2.0"), (REST, None)):
        assert {integration.get("payloadFormatVersion") for integration in integrations(parameters).values()} == {version}


def test_both_are_bounded_alike():
    http = deploy({"ApiRateLimit": "70"}).properties("ApiApiGatewayDefaultStage")
    rest = deploy({**REST, "ApiRateLimit": "70"}).properties("RestApiliveStage")["MethodSettings"]

    def limits(settings):
        return settings["ThrottlingRateLimit"], settings["ThrottlingBurstLimit"]

    expected = {("*", "/*"): limits(http["DefaultRouteSettings"])}
    for route, settings in http["RouteSettings"].items():
        if route != "$default":
            method, path = route.split(" ")
            expected[method, "/" + path.replace("/", "~1")] = limits(settings)
    assert {(each["HttpMethod"], each["ResourcePath"]): limits(each) for each in rest} == expected


def test_a_rest_api_passes_bytes_on_and_is_deployed_anew_each_time():
    api = deploy(REST).properties("RestApi")
    assert api["Body"]["x-amazon-apigateway-binary-media-types"] == ["*/*"]
    assert api["EndpointConfiguration"] == {"Types": ["REGIONAL"]}
    assert "x-amazon-apigateway-policy" not in api["Body"]
    assert source()["Resources"]["RestApi"]["Properties"]["AlwaysDeploy"] is True
    # It makes no stage besides.
    (deployment,) = deploy(REST).of("AWS::ApiGateway::Deployment").values()
    assert "StageName" not in deployment["Properties"]


def test_what_no_route_of_a_rest_api_takes_is_a_problem():
    response = deploy(REST).properties("RestApi")["Body"]["x-amazon-apigateway-gateway-responses"]["MISSING_AUTHENTICATION_TOKEN"]
    problem = json.loads(response["responseTemplates"]["application/json"])
    assert (response["statusCode"], problem["status"], problem["reason"]) == ("404", 404, "ROUTE_NOT_FOUND")
    assert response["responseParameters"]["gatewayresponse.header.Content-Type"] == "'application/problem+json'"


def test_a_private_rest_api_takes_requests_from_its_endpoints_alone():
    api = deploy({**REST, "ApiPrivateEndpoints": ENDPOINTS}).properties("RestApi")
    assert api["EndpointConfiguration"] == {"Types": ["PRIVATE"], "VpcEndpointIds": ENDPOINTS.split(",")}
    (statement,) = api["Body"]["x-amazon-apigateway-policy"]["Statement"]
    assert (statement["Effect"], statement["Action"]) == ("Allow", "execute-api:Invoke")
    assert statement["Condition"] == {"StringEquals": {"aws:SourceVpce": ENDPOINTS.split(",")}}


def test_a_web_acl_is_about_the_stage():
    (association,) = deploy({**REST, "ApiWebAclArn": WEB_ACL}).of("AWS::WAFv2::WebACLAssociation").values()
    assert association["Properties"] == {
        "ResourceArn": "arn:aws:apigateway:us-east-1::/restapis/«RestApi»/stages/«RestApiliveStage»",
        "WebACLArn": WEB_ACL,
    }


def test_a_domain_maps_to_either():
    for stage, parameters in (("ApiApiGatewayDefaultStage", DOMAIN), ("RestApiliveStage", {**REST, **DOMAIN})):
        stack = deploy(parameters)
        mapping = stack.properties("ApiDomainMapping")
        assert (mapping["ApiId"], mapping["Stage"]) == (f"«{api_of(stack)}»", f"«{stage}»")
        (server,) = stack.properties(api_of(stack))["Body"]["servers"]
        assert server["x-amazon-apigateway-endpoint-configuration"] == {"disableExecuteApiEndpoint": True}


def test_the_output_is_where_the_api_answers():
    for parameters, address in (
        (GATEWAY, "https://«Api».execute-api.us-east-1.amazonaws.com"),
        (REST, "https://«RestApi».execute-api.us-east-1.amazonaws.com/«RestApiliveStage»"),
    ):
        assert deploy(parameters).outputs["ApiUrl"]["Value"] == address


def test_alarms_and_the_dashboard_look_at_the_api_that_is_there():
    def widgets(stack):
        return json.loads(stack.properties("OperationsDashboard")["DashboardBody"])["widgets"]

    for parameters, errors, dimension in (
        (GATEWAY, "5xx", {"Name": "ApiId", "Value": "«Api»"}),
        (REST, "5XXError", {"Name": "ApiName", "Value": "integrahub"}),
    ):
        stack = deploy(parameters)
        for name in ("ApiErrorsAlarm", "ApiErrorsSlowAlarm"):
            metrics = {metric["MetricName"]: metric["Dimensions"] for metric in watched(stack.properties(name))}
            assert metrics == {errors: [dimension], "Count": [dimension]}
        shown = [metric for widget in widgets(stack) for metric in widget["properties"].get("metrics", []) if metric[0] == "AWS/ApiGateway"]
        assert ["AWS/ApiGateway", errors, dimension["Name"], dimension["Value"]] in shown
        assert {tuple(metric[2:]) for metric in shown} == {(dimension["Name"], dimension["Value"])}


def test_sam_reads_no_parameter_of_the_front():
    assert translated(REST) is translated(GATEWAY)
