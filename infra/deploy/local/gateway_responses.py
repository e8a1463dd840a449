"""Gateway responses for emulators, which ignore them in the definition of an API."""

from typing import Any, Final

EXTENSION: Final = "x-amazon-apigateway-gateway-responses"


def add_gateway_responses(template: dict[str, Any]) -> None:
    """Add the gateway responses in the definition of the API as resources. Deployments of the API include them."""
    resources = template["Resources"]
    names = []
    for kind, response in resources["RestAPI"]["Properties"]["Body"].get(EXTENSION, {}).items():
        properties = {
            "RestApiId": {"Ref": "RestAPI"},
            "ResponseType": kind,
            "ResponseParameters": response["responseParameters"],
            "ResponseTemplates": response["responseTemplates"],
        }
        if "statusCode" in response:
            properties["StatusCode"] = str(response["statusCode"])
        name = f"GatewayResponse{kind.title().replace('_', '')}"
        resources[name] = {"Type": "AWS::ApiGateway::GatewayResponse", "Properties": properties}
        names.append(name)
    for resource in resources.values():
        if resource["Type"] == "AWS::ApiGateway::Deployment":
            resource["DependsOn"] = names
