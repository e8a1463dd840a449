"""The file of observers: what it says is configured at every start.

```yaml
jobs:                       # by type of job, for all templates
  backup: {label: Nightly backup, silent: "0"}
observers:
  ops-mail:
    channel: mail
    events: finish, clean
    config: {from: annals@example.org, to: ops@example.org}
```
"""

from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from chalicelib.domain.errors import BadInput
from chalicelib.domain.model import Model
from chalicelib.domain.notifications.observer import Configuration, name_checked
from chalicelib.http.requests import explained
from chalicelib.wiring import Annals
from chalicelib.wiring.notifications import check_observer


class ObserversFile(Model):
    """What the file says."""

    observers: Annotated[dict[str, Configuration], Field(default_factory=dict)]
    jobs: Annotated[dict[str, dict[str, Any]], Field(default_factory=dict)]


_FILE: TypeAdapter[ObserversFile] = TypeAdapter(ObserversFile)


def configure(path: Path, server: int, parts: Annals) -> int:
    """Configure what the file says, if there is one; how many observers that are."""
    if not path.is_file():
        return 0
    try:
        said = _FILE.validate_python(yaml.safe_load(path.read_text()) or {})
    except ValidationError as failure:
        raise BadInput(f"{path}: {explained(failure)}") from failure
    except (yaml.YAMLError, UnicodeDecodeError) as failure:
        raise BadInput(f"{path}: {failure}") from failure
    for name, configuration in said.observers.items():
        try:
            check_observer(configuration, parts.settings)
        except BadInput as refusal:
            raise BadInput(f"{path}: {name}: {refusal}") from refusal
        parts.observers.put(server, name_checked(name), configuration)
    parts.observers.configure_jobs(server, said.jobs)
    return len(said.observers)
