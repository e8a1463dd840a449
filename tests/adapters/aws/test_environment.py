"""Who we are and where: what the environment says, and what the SDK finds where it says nothing."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from botocore.exceptions import NoRegionError
from botocore.session import get_session

from chalicelib.adapters.aws import environment as surroundings
from chalicelib.adapters.aws.client import DYNAMODB, GLUE, SQS, Service
from chalicelib.adapters.aws.sigv4 import Credentials
from chalicelib.domain.errors import Unavailable

ROOT = Path(__file__).parents[3]
OF_LAMBDA = {
    "AWS_ACCESS_KEY_ID": "a",
    "AWS_SECRET_ACCESS_KEY": "s",
    "AWS_SESSION_TOKEN": "t",
    "AWS_REGION": "eu-west-1",
}
USED = """
import sys
from chalicelib.adapters.aws.client import DYNAMODB, client
client(DYNAMODB)
print([name for name in ("boto3", "botocore", "urllib3") if name in sys.modules])
"""
RENEWED = """
import json, pathlib, sys
asked = pathlib.Path(sys.argv[1])
asked.write_text(asked.read_text() + "x" if asked.exists() else "x")
name = f"key-{len(asked.read_text())}"
print(json.dumps({"Version": 1, "AccessKeyId": name, "SecretAccessKey": "s", "Expiration": "2001-01-01T00:00:00Z"}))
"""


@pytest.fixture(name="home")
def a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose environment says nothing, and whose files are here."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return tmp_path


def test_a_function_knows_all_from_its_environment_and_loads_no_sdk() -> None:
    assert surroundings.credentials(OF_LAMBDA)() == Credentials("a", "s", "t")
    assert surroundings.region(OF_LAMBDA) == "eu-west-1"
    environment = {"PATH": os.environ["PATH"], **OF_LAMBDA}
    done = subprocess.run(
        [sys.executable, "-c", USED], cwd=ROOT, env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("service", [DYNAMODB, SQS, GLUE], ids=lambda service: service.name)
def test_each_region_is_where_the_sdk_says_it_is(service: Service) -> None:
    resolver = get_session().get_component("endpoint_resolver")
    regions = [
        region
        for partition in get_session().get_available_partitions()
        for region in resolver.get_available_endpoints(service.signing_name, partition)
    ]
    found = {region: surroundings.endpoint(service.signing_name, region, {}) for region in regions}
    assert len(found) > 30
    assert found == {
        region: f"https://{resolver.construct_endpoint(service.signing_name, region)['hostname']}" for region in regions
    }


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
def test_what_stands_in_for_aws_is_called(environment: dict[str, str], endpoint: str) -> None:
    assert surroundings.endpoint("dynamodb", "eu-west-1", environment) == endpoint


@pytest.mark.parametrize(
    ("address", "by_proxy"),
    [
        ("https://dynamodb.eu-west-1.amazonaws.com", True),
        ("https://dynamodb.inside.example", False),
        ("https://127.0.0.1:4566", False),
        ("http://127.0.0.1:4566", False),
    ],
)
def test_whoever_is_behind_a_proxy_goes_by_it_but_not_to_what_is_near(
    address: str, by_proxy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,.inside.example")
    monkeypatch.delenv("no_proxy", raising=False)
    environment = {"HTTPS_PROXY": "http://proxy.example:3128"}
    assert surroundings.proxy(address, environment) == (environment["HTTPS_PROXY"] if by_proxy else None)
    assert surroundings.proxy(address, {}) is None


def test_a_profile_says_who_we_are_where_the_environment_does_not(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "credentials").write_text("[anna]\naws_access_key_id = a\naws_secret_access_key = s\n")
    (home / "config").write_text("[profile anna]\nregion = eu-north-1\n")
    monkeypatch.setenv("AWS_PROFILE", "anna")
    assert surroundings.credentials()() == Credentials("a", "s")
    assert surroundings.region() == "eu-north-1"


def test_credentials_that_expire_are_asked_for_again(home: Path) -> None:
    command = json.dumps([sys.executable, str(home / "renew.py"), str(home / "asked")])[1:-1].replace('", "', '" "')
    (home / "renew.py").write_text(RENEWED)
    (home / "config").write_text(f"[default]\ncredential_process = {command}\n")
    ask = surroundings.credentials()
    for _ in range(2):
        with pytest.raises(Unavailable, match=r"no credentials for AWS: .* expired"):
            ask()
    assert len((home / "asked").read_text()) > 1


def test_nobody_and_nowhere_are_errors(home: Path) -> None:
    del home
    with pytest.raises(Unavailable, match="no credentials for AWS"):
        surroundings.credentials()
    with pytest.raises(NoRegionError):
        surroundings.region()
