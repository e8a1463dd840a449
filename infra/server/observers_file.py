"""The observers file, with observers, settings of jobs and expectations. Its contents are applied at every start.

```yaml
jobs:                       # by job type, available in all templates
  backup: {label: Nightly backup, silent: "0"}
observers:
  ops-mail:
    channel: mail
    events: finish, clean
    config: {from: annals@example.org, to: ops@example.org}
expectations:
  nightly-backup: {type: backup, cron: 30 2 * * *, time_zone: Europe/Berlin}
```
"""

from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from chalicelib.domain.errors import BadInput
from chalicelib.domain.expectations import expectation as expectations
from chalicelib.domain.expectations.expectation import Expectation
from chalicelib.domain.model import Model
from chalicelib.domain.notifications.observer import Configuration, check_name
from chalicelib.http.requests import explain
from chalicelib.wiring import Components
from chalicelib.wiring.notifications import build_validator


class ObserversFile(Model):
    """The parsed file."""

    observers: Annotated[dict[str, Configuration], Field(default_factory=dict)]
    jobs: Annotated[dict[str, dict[str, Any]], Field(default_factory=dict)]
    expectations: Annotated[dict[str, Expectation], Field(default_factory=dict)]


_FILE: TypeAdapter[ObserversFile] = TypeAdapter(ObserversFile)


def apply_observers_file(path: Path, server: int, components: Components) -> int:
    """Configure what is in the file, if it exists. Returns the number of observers."""
    if not path.is_file():
        return 0
    try:
        content = _FILE.validate_python(yaml.safe_load(path.read_text()) or {})
    except ValidationError as error:
        raise BadInput(f"{path}: {explain(error)}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}") from error
    validator = build_validator(components.settings)
    registry = components.notifications.observers
    for name, configuration in content.observers.items():
        try:
            complete = registry.with_stored_secrets(server, check_name(name), configuration)
            validator.check(complete)
            _check_secret(complete)
        except BadInput as error:
            raise BadInput(f"{path}: {name}: {error}") from error
        registry.put(server, name, complete)
    components.notifications.observers.configure_jobs(server, content.jobs)
    for name, expectation in content.expectations.items():
        components.expectations.registry.put(server, expectations.check_name(name), expectation)
    return len(content.observers)


def _check_secret(configuration: Configuration) -> None:
    """A generated secret could not be shown, so the file has to contain it."""
    if configuration.channel == "webhook" and "secret" not in configuration.config:
        raise BadInput(
            "config.secret: a webhook needs one; for example 'whsec_' and the output of openssl rand -base64 32"
        )
