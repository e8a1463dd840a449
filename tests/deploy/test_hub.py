"""The hub in the template: created only with Hub=on, with the environment of the functions, and drained gently."""

import json
import re
from typing import Any

import pytest

from chalicelib.services.log.appender import APPEND_TIMEOUT_S
from infra.deploy.build.hub import add_environment
from infra.deploy.build.package import load_template
from infra.server.hub import Hub
from tests.deploy.linting import HUB_CONDITIONS, without_hub

HUB = "Hub"


@pytest.fixture(scope="module", name="template")
def loaded_template() -> dict[str, Any]:
    return load_template()


def properties(template: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = template["Resources"][name]["Properties"]
    return found


def container(template: dict[str, Any]) -> dict[str, Any]:
    (only,) = properties(template, "HubTask")["ContainerDefinitions"]
    found: dict[str, Any] = only
    return found


def environment(template: dict[str, Any]) -> dict[str, Any]:
    """The container's variables, except conditional ones."""
    return {entry["Name"]: entry["Value"] for entry in container(template)["Environment"] if "Name" in entry}


def attribute(entries: list[dict[str, str]], key: str) -> float:
    return float(next(entry["Value"] for entry in entries if entry["Key"] == key))


def test_without_hub_nothing_of_it_is_created(template: dict[str, Any]) -> None:
    off = without_hub(template)
    hub = [name for name in template["Resources"] if name.startswith(HUB)]
    assert "HubService" in hub
    assert {template["Resources"][name]["Condition"] for name in hub} == HUB_CONDITIONS
    assert template["Resources"].keys() - off["Resources"].keys() == set(hub)
    assert HUB not in re.sub("HubWidgets", "", json.dumps([off["Resources"], off["Outputs"]]))


def test_hub_is_off_by_default(template: dict[str, Any]) -> None:
    assert template["Parameters"]["Hub"]["Default"] == "off"


def test_hub_needs_image_network_and_domain(template: dict[str, Any]) -> None:
    required = {
        assertion["Assert"]["Fn::Not"][0]["Fn::Equals"][0]["Ref"]
        for rule in template["Rules"].values()
        for assertion in rule["Assertions"]
    }
    assert required == {"HubImage", "HubVpc", "HubSubnets", "HubDomain"}


@pytest.mark.parametrize(
    ("parameter", "accepted", "refused"),
    [
        ("HubSubnets", "subnet-0a1,subnet-0b2", "subnet-0a1"),
        ("HubVpc", "vpc-0a1", "10.0.0.0/16"),
        ("HubCertificate", "arn:aws:acm:eu-central-1:1:certificate/1", "/etc/ssl/cert.pem"),
        ("HubClients", "10.0.0.0/8", "10.0.0.1"),
    ],
)
def test_hub_parameter_patterns(template: dict[str, Any], parameter: str, accepted: str, refused: str) -> None:
    pattern = template["Parameters"][parameter]["AllowedPattern"]
    assert re.search(pattern, accepted)
    assert not re.search(pattern, refused)


def test_hub_has_environment_of_functions(template: dict[str, Any]) -> None:
    shared = template["Globals"]["Function"]["Environment"]["Variables"]
    hub = environment(template)
    differing = {name for name, value in shared.items() if hub.get(name) != value}
    assert differing == {"TOKEN_VERIFICATION", "AWS_ENDPOINT_URL"}
    own = {"HOST", "PORT", "AWS_REGION", "JWT_KEY", "LONGEST_POLL", "IDLE_TIME", "TOKEN_VERIFICATION"}
    assert hub.keys() - shared.keys() | {"TOKEN_VERIFICATION"} == own


def test_hub_environment_with_condition_is_one_entry(template: dict[str, Any]) -> None:
    entry = {"Name": "AWS_ENDPOINT_URL", "Value": {"Ref": "FunctionsEndpoint"}}
    expected = {"Fn::If": ["HasFunctionsEndpoint", entry, {"Ref": "AWS::NoValue"}]}
    assert expected in container(template)["Environment"]


def test_add_environment_keeps_variables_of_container() -> None:
    definition = {"Environment": [{"Name": "A", "Value": "own"}]}
    template = {
        "Globals": {"Function": {"Environment": {"Variables": {"A": "shared", "B": {"Ref": "X"}}}}},
        "Resources": {"HubTask": {"Properties": {"ContainerDefinitions": [definition]}}},
    }
    add_environment(template)
    assert definition["Environment"] == [{"Name": "A", "Value": "own"}, {"Name": "B", "Value": {"Ref": "X"}}]


def test_hub_timeouts_let_polls_finish(template: dict[str, Any]) -> None:
    variables = environment(template)
    targets = properties(template, "HubTargets")["TargetGroupAttributes"]
    balancer = properties(template, "HubLoadBalancer")["LoadBalancerAttributes"]
    poll_s = float(variables["LONGEST_POLL"])
    deregistration_s = attribute(targets, "deregistration_delay.timeout_seconds")
    idle_s = attribute(balancer, "idle_timeout.timeout_seconds")
    assert poll_s < deregistration_s
    assert poll_s < idle_s < float(variables["IDLE_TIME"])
    # The condition of an append is checked before the time for its write begins.
    assert 2 * APPEND_TIMEOUT_S < Hub.stop_timeout_s < container(template)["StopTimeout"] <= 120


def test_hub_deployment_keeps_all_tasks_and_rolls_back(template: dict[str, Any]) -> None:
    service = properties(template, "HubService")
    deployment = service["DeploymentConfiguration"]
    assert (deployment["MinimumHealthyPercent"], deployment["MaximumPercent"]) == (100, 200)
    assert deployment["DeploymentCircuitBreaker"] == {"Enable": True, "Rollback": True}
    # Otherwise every deployment would undo what autoscaling has set.
    assert "DesiredCount" not in service
    scaling = properties(template, "HubScaling")
    assert (scaling["MinCapacity"], scaling["MaxCapacity"]) == ({"Ref": "HubTasks"}, {"Ref": "HubMaxTasks"})


def test_hub_health_check_reads_one_log(template: dict[str, Any]) -> None:
    assert properties(template, "HubTargets")["HealthCheckPath"] == "/health?limit=1"


def test_hub_container_health_check_is_valid_python(template: dict[str, Any]) -> None:
    kind, python, option, code = container(template)["HealthCheck"]["Command"]
    assert (kind, python, option) == ("CMD", "python", "-c")
    compile(code, "health check", "exec")
    assert f"'127.0.0.1', {environment(template)['PORT']}" in code


def test_hub_port_is_the_same_everywhere(template: dict[str, Any]) -> None:
    port = int(environment(template)["PORT"])
    rules = [properties(template, name) for name in ("HubLoadBalancerToTasks", "HubTasksFromLoadBalancer")]
    ports = [rule[end] for rule in rules for end in ("FromPort", "ToPort")]
    ports += [properties(template, "HubTargets")["Port"], container(template)["PortMappings"][0]["ContainerPort"]]
    (balancer,) = properties(template, "HubService")["LoadBalancers"]
    assert {*ports, balancer["ContainerPort"]} == {port}


def test_hub_without_certificate_is_internal(template: dict[str, Any]) -> None:
    scheme = properties(template, "HubLoadBalancer")["Scheme"]
    listener = properties(template, "HubListener")
    assert scheme == {"Fn::If": ["HasHubCertificate", {"Ref": "HubScheme"}, "internal"]}
    assert listener["Protocol"] == {"Fn::If": ["HasHubCertificate", "HTTPS", "HTTP"]}
    assert listener["Port"] == {"Fn::If": ["HasHubCertificate", 443, 80]}


def test_hub_tasks_accept_load_balancer_only(template: dict[str, Any]) -> None:
    assert "SecurityGroupIngress" not in properties(template, "HubTaskSecurityGroup")
    ingress = properties(template, "HubTasksFromLoadBalancer")
    assert ingress["SourceSecurityGroupId"] == {"Fn::GetAtt": ["HubLoadBalancerSecurityGroup", "GroupId"]}


def test_hub_execution_role_pulls_image_and_writes_log(template: dict[str, Any]) -> None:
    (policy,) = properties(template, "HubExecutionRole")["Policies"]
    statements = policy["PolicyDocument"]["Statement"]
    assert {action for statement in statements for action in statement["Action"]} == {
        "ecr:BatchCheckLayerAvailability",
        "ecr:BatchGetImage",
        "ecr:GetAuthorizationToken",
        "ecr:GetDownloadUrlForLayer",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
    }
    assert [one["Action"] for one in statements if "*" in one["Resource"]] == [["ecr:GetAuthorizationToken"]]


def test_hub_logs_have_retention(template: dict[str, Any]) -> None:
    assert properties(template, "HubLogs")["RetentionInDays"] == {"Ref": "LogRetentionDays"}
    assert container(template)["LogConfiguration"]["Options"]["awslogs-group"] == {"Ref": "HubLogs"}


@pytest.mark.parametrize(
    ("alarm", "metric"),
    [
        ("HubUnhealthyAlarm", "UnHealthyHostCount"),
        ("HubServerErrorAlarm", "HTTPCode_Target_5XX_Count"),
        ("HubUnreachableAlarm", "HTTPCode_ELB_5XX_Count"),
    ],
)
def test_hub_alarms(template: dict[str, Any], alarm: str, metric: str) -> None:
    found = properties(template, alarm)
    assert (found["Namespace"], found["MetricName"]) == ("AWS/ApplicationELB", metric)
    assert found["AlarmActions"] == [{"Ref": "AlarmTopic"}]


@pytest.mark.parametrize(("branch", "widgets"), [(1, 15), (2, 12)])
def test_dashboard_is_json_with_and_without_hub(template: dict[str, Any], branch: int, widgets: int) -> None:
    text, variables = properties(template, "Dashboard")["DashboardBody"]["Fn::Sub"]
    hub = variables["HubWidgets"]["Fn::If"][branch]
    hub = hub["Fn::Sub"] if isinstance(hub, dict) else hub
    body = json.loads(text.replace("${HubWidgets}", hub).replace("${Dollar}", "$"))
    places = [(widget["x"], widget["y"]) for widget in body["widgets"]]
    assert len(places) == len(set(places)) == widgets
