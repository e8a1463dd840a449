"""Credentials, region, endpoint and proxy, from the environment or from the SDK."""

import json
import logging
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from botocore.awsrequest import AWSPreparedRequest
from botocore.config import Config
from botocore.exceptions import EndpointProviderError, NoRegionError
from botocore.session import get_session

from chalicelib.adapters.aws import environment as aws_settings
from chalicelib.adapters.aws.client import DYNAMODB, GLUE, SQS, Service
from chalicelib.adapters.aws.sigv4 import Credentials
from chalicelib.domain.errors import Unavailable
from tests.adapters.aws.endpoints import serve

ROOT = Path(__file__).parents[3]
REGIONS = ("eu-west-1", "us-east-1", "us-gov-west-1", "cn-north-1", "eusc-de-east-1", "us-iso-east-1", "us-isob-east-1")
LAMBDA_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "s",
    "AWS_SESSION_TOKEN": "t",
    "AWS_REGION": "eu-west-1",
}
LIST_IMPORTED_SDKS = """
import sys
from chalicelib.adapters.aws.client import DYNAMODB, create_client
create_client(DYNAMODB)
print([name for name in ("boto3", "botocore", "urllib3") if name in sys.modules])
"""
EXPIRED_CREDENTIALS_PROCESS = """
import json, pathlib, sys
asked = pathlib.Path(sys.argv[1])
asked.write_text(asked.read_text() + "x" if asked.exists() else "x")
name = f"key-{len(asked.read_text())}"
print(json.dumps({"Version": 1, "AccessKeyId": name, "SecretAccessKey": "s", "Expiration": "2001-01-01T00:00:00Z"}))
"""


@pytest.fixture(name="home")
def machine_without_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Directory of the AWS configuration files on a machine without AWS environment variables."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


def test_client_in_lambda_environment_imports_no_sdk() -> None:
    assert aws_settings.credentials_provider(LAMBDA_ENVIRONMENT)() == Credentials("a", "s", "t")
    assert aws_settings.region(LAMBDA_ENVIRONMENT) == "eu-west-1"
    environment = {"PATH": os.environ["PATH"], **LAMBDA_ENVIRONMENT}
    process = subprocess.run(
        [sys.executable, "-c", LIST_IMPORTED_SDKS],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert process.stdout == "[]\n"


@pytest.mark.parametrize("service", [DYNAMODB, SQS, GLUE], ids=lambda service: service.name)
def test_endpoint_of_each_region_equals_sdk_endpoint(service: Service) -> None:
    resolver = get_session().get_component("endpoint_resolver")
    regions = [
        region
        for partition in get_session().get_available_partitions()
        for region in resolver.get_available_endpoints(service.signing_name, partition)
    ]
    endpoints = {region: aws_settings.endpoint(service.signing_name, region, {}) for region in regions}
    assert len(endpoints) > 30
    assert endpoints == {
        region: f"https://{resolver.construct_endpoint(service.signing_name, region)['hostname']}" for region in regions
    }


@pytest.mark.usefixtures("aws_environment")
@pytest.mark.parametrize("service", [DYNAMODB, SQS, GLUE], ids=lambda service: service.name)
@pytest.mark.parametrize(("fips", "dual_stack"), [(True, False), (False, True), (True, True)])
def test_fips_and_dual_stack_endpoints_equal_those_of_sdk(service: Service, fips: bool, dual_stack: bool) -> None:
    variables = {"AWS_USE_FIPS_ENDPOINT": str(fips), "AWS_USE_DUALSTACK_ENDPOINT": str(dual_stack).lower()}
    endpoints, sdk_endpoints = {}, {}
    for region in REGIONS:
        sdk_endpoint = find_sdk_endpoint(service, region, fips, dual_stack)
        if sdk_endpoint is not None:
            sdk_endpoints[region] = sdk_endpoint
            endpoints[region] = aws_settings.endpoint(service.signing_name, region, variables)
    assert endpoints == sdk_endpoints
    assert len(endpoints) >= 3


def find_sdk_endpoint(service: Service, region: str, fips: bool, dual_stack: bool) -> str | None:
    """The URL to which the SDK sends a request, None if the region does not offer it."""

    class Sent(Exception):
        """Raised instead of sending the request."""

    def send(request: AWSPreparedRequest, **_: object) -> None:
        raise Sent(str(request.url).rstrip("/"))

    config = Config(use_fips_endpoint=fips, use_dualstack_endpoint=dual_stack, account_id_endpoint_mode="disabled")
    client = get_session().create_client(service.signing_name, region, config=config)
    client.meta.events.register("before-send", send)
    calls = {"dynamodb": "list_tables", "sqs": "list_queues", "glue": "list_jobs"}
    try:
        getattr(client, calls[service.signing_name])()
    except Sent as sent:
        return str(sent)
    except EndpointProviderError:
        return None
    raise AssertionError("a request was sent")


@pytest.mark.parametrize(
    ("environment", "endpoint"),
    [
        ({"AWS_ENDPOINT_URL": "http://all"}, "http://all"),
        ({"AWS_ENDPOINT_URL_DYNAMODB": "http://one"}, "http://one"),
        ({"AWS_ENDPOINT_URL": "http://all", "AWS_ENDPOINT_URL_DYNAMODB": "http://one"}, "http://one"),
        ({"AWS_ENDPOINT_URL_SQS": "http://another"}, "https://dynamodb.eu-west-1.amazonaws.com"),
        ({"AWS_ENDPOINT_URL": ""}, "https://dynamodb.eu-west-1.amazonaws.com"),
    ],
)
def test_endpoint_overridden_by_environment(environment: dict[str, str], endpoint: str) -> None:
    assert aws_settings.endpoint("dynamodb", "eu-west-1", environment) == endpoint


@pytest.mark.parametrize(
    ("address", "by_proxy"),
    [
        ("https://dynamodb.eu-west-1.amazonaws.com", True),
        ("https://dynamodb.inside.example", False),
        ("https://127.0.0.1:4566", False),
        ("http://127.0.0.1:4566", False),
    ],
)
def test_proxy_respects_no_proxy_and_plain_http(address: str, by_proxy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,.inside.example")
    monkeypatch.delenv("no_proxy", raising=False)
    environment = {"HTTPS_PROXY": "http://proxy.example:3128"}
    assert aws_settings.proxy(address, environment) == (environment["HTTPS_PROXY"] if by_proxy else None)
    assert aws_settings.proxy(address, {}) is None


def test_credentials_and_region_from_profile(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "credentials").write_text("[anna]\naws_access_key_id = a\naws_secret_access_key = s\n")
    (home / "config").write_text("[profile anna]\nregion = eu-north-1\n")
    monkeypatch.setenv("AWS_PROFILE", "anna")
    assert aws_settings.credentials_provider()() == Credentials("a", "s")
    assert aws_settings.region() == "eu-north-1"


def test_credentials_expired_are_refreshed_on_each_call(home: Path) -> None:
    command = json.dumps([sys.executable, str(home / "renew.py"), str(home / "asked")])[1:-1].replace('", "', '" "')
    (home / "renew.py").write_text(EXPIRED_CREDENTIALS_PROCESS)
    (home / "config").write_text(f"[default]\ncredential_process = {command}\n")
    provider = aws_settings.credentials_provider()
    for _ in range(2):
        with pytest.raises(Unavailable, match=r"AWS credentials cannot be refreshed: .* expired"):
            provider()
    assert len((home / "asked").read_text()) > 1


def test_lambda_without_keys_uses_container_credentials(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    del home
    with pytest.raises(Unavailable, match="neither AWS_ACCESS_KEY_ID nor AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        aws_settings.credentials_provider({"AWS_LAMBDA_FUNCTION_NAME": "annals"})
    document = {"AccessKeyId": "a", "SecretAccessKey": "s", "Token": "t", "Expiration": "2999-01-01T00:00:00Z"}

    class CredentialsHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_: object) -> None:
            pass

    with serve(CredentialsHandler) as endpoint, pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.INFO):
        patch.setenv("AWS_LAMBDA_FUNCTION_NAME", "annals")
        patch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{endpoint}/v2/credentials")
        assert aws_settings.credentials_provider()() == Credentials("a", "s", "t")
    assert "the SDK gets the credentials from the container endpoint" in caplog.text


def test_credentials_and_region_missing_raise(home: Path) -> None:
    del home
    with pytest.raises(Unavailable, match="no AWS credentials"):
        aws_settings.credentials_provider()
    with pytest.raises(NoRegionError):
        aws_settings.region()
