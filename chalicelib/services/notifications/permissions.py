"""Permissions to see and configure observers.

Administrators manage all observers. Every other reader manages only their own private ones.
"""

from dataclasses import dataclass

from chalicelib.domain.errors import BadInput, Forbidden, NotFound
from chalicelib.domain.notifications.observer import Configuration, Observer, check_name
from chalicelib.services.notifications.registry import ObserverRegistry

MAX_PRIVATE_OBSERVERS = 100
"""Per user, because every event is matched against each of them."""


@dataclass(frozen=True, slots=True)
class Actor:
    """The authenticated user who manages observers."""

    user: str
    is_admin: bool

    def may_manage(self, observer: Observer) -> bool:
        return self.is_admin or (observer.is_private and observer.configuration.user == self.user)


@dataclass(frozen=True, slots=True)
class ObserverPermissions:
    """Applies the rules to the observers of a registry."""

    registry: ObserverRegistry

    def visible_observers(self, server: int, actor: Actor) -> list[Observer]:
        return [observer for observer in self.registry.load(server).observers.values() if actor.may_manage(observer)]

    def get_observer(self, server: int, name: str, actor: Actor) -> Observer:
        """Raise `NotFound` for an observer of another user, so that its existence is not revealed."""
        observer = self.registry.get(server, name)
        if not actor.may_manage(observer):
            raise NotFound(f"there is no observer '{name[:100]}'")
        return observer

    def authorize(self, server: int, name: str, configuration: Configuration, actor: Actor) -> Configuration:
        """Return the configuration with its user filled in, or raise if the actor may not configure `name` so."""
        existing = self.registry.load(server).observers.get(check_name(name))
        if existing is not None and not actor.may_manage(existing):
            raise Forbidden(f"the observer '{name}' belongs to another user; choose another name")
        owned = _with_owner(configuration, actor)
        if existing is None:
            self._check_quota(server, owned)
        return owned

    def _check_quota(self, server: int, configuration: Configuration) -> None:
        if configuration.scope != "private":
            return
        observers = self.registry.load(server).observers.values()
        owned = sum(other.is_private and other.configuration.user == configuration.user for other in observers)
        if owned >= MAX_PRIVATE_OBSERVERS:
            raise BadInput(f"a user may have at most {MAX_PRIVATE_OBSERVERS} private observers; delete one first")


def _with_owner(configuration: Configuration, actor: Actor) -> Configuration:
    if configuration.scope == "global":
        if not actor.is_admin:
            raise Forbidden(f"'{actor.user}' may not configure global observers; only administrators may")
        return configuration
    user = configuration.user or actor.user
    if user != actor.user and not actor.is_admin:
        raise Forbidden(f"'{actor.user}' may not configure observers of other users; only administrators may")
    if configuration.channel == "app" and "to" in configuration.config:
        raise BadInput("config.to: a private app observer notifies only its own user; remove 'to'")
    return configuration.model_copy(update={"user": user})
