"""From the model that a client asks for to the models that answer.

A name is looked up in this order; the first that fits counts:

1. an alias of that very name;
2. an alias whose pattern fits, the longest pattern first;
3. the name behind `anthropic/` or `claude-`, which stand before the ids that Claude Code lists, as 1 or as `provider/model`;
4. `provider/model`, if the catalog knows it and the operator allows it;
5. a name that begins with `anthropic/claude` and is not served as such: what is behind the slash, as 1 or 2.

A suffix in brackets (`[1m]`) and the prefix `models/` are not part of a name. Upper and lower case are the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b

from msgspec.structs import replace

from ..client.catalog import Catalog
from ..client.prices import Price, dearest_price, known_prices
from ..core.blocks import Value
from ..core.dialect import MissingReasoning, TextCalls
from ..core.errors import BadRequest, ConfigError, LocalError, MissingKey, UnknownModel
from ..dialects.registry import REGISTRY
from ..sim.providers import SIM
from .config import Alias, GatewayConfig, dotted, near
from .tenants import LOCAL, Tenant

LONGEST_NAME = 256
_NAMED = 8  # models that a message names
_UNPRICED = {
    "free": "what they answer counts nothing against a budget",
    "dearest": "what they answer counts against a budget as if the dearest model here had",
    "refuse": "keys with a budget may not use them",
}
_WAITS = ("first_byte", "idle", "total")
_REMEMBERED = 4096
"""How many names are remembered; clients choose them, so there must be an end."""
# Claude Code appends `[1m]` to a model's name to ask for the long window.
_BRACKETS = re.compile(r"\[[^\[\]]*\]\Z")
_NO_DOUBLES = (
    "doubles are served where no provider is set up, or where [aliases] or [models] allow in gateway.toml names them"
)


class Route(Value, frozen=True):
    """Where one request goes: `models` is the chain, first choice first. `name` is what the asked name was understood as."""

    asked: str
    models: tuple[str, ...]
    name: str = ""
    text_calls: TextCalls = "show"
    missing_reasoning: MissingReasoning = "placeholder"
    sticky: bool = True
    fields: tuple[str, ...] = ()
    """Fields of a client's body that go on to the model although it is not known to take them (`*` for all)."""
    waits: tuple[float | None, ...] = (None, None, None)
    """The `first_byte`, `idle` and `total` of each model's answer, where they are set here."""


class ListedModel(Value, frozen=True):
    """A model to offer. `claude_id` is its name for Claude Code, which shows only ids that begin with `claude` or `anthropic`."""

    id: str
    display_name: str
    target: str
    claude_id: str
    alias: str = ""
    """The alias that it is or fits, if there is one."""


class Router:
    """Routes by a configuration that can be exchanged while requests are under way: each sees the old one or the new one."""

    def __init__(self, config: GatewayConfig, catalog: Catalog) -> None:
        self._table = _Table(config, catalog)
        self._requests = 0

    @property
    def config(self) -> GatewayConfig:
        return self._table.config

    @property
    def weighs(self) -> bool:
        """Whether the model of some alias depends on the conversation."""
        return bool(self._table.weighted)

    @property
    def catalog(self) -> Catalog:
        return self._table.catalog

    def replace(self, config: GatewayConfig, catalog: Catalog | None = None) -> None:
        """Route by this configuration from now on. ConfigError, with the old one still in force, if it cannot be used."""
        self._table = _Table(config, catalog or self._table.catalog)

    def route(self, asked: str, tenant: Tenant, conversation: str = "", *, own_key: bool = False) -> Route:
        """The chain for a request. `conversation` is any text that stays the same through a conversation: requests with the
        same one go to the same model, in every process. UnknownModel or BadRequest if there is none for this tenant. A client
        that brings its `own_key` gets models of one provider: nobody else may see the key."""
        table = self._table
        # Everything that a route depends on, so that tenants with the same rights share an entry.
        key = (asked, tenant.models, tenant.text_calls)
        route = table.routes.get(key)
        if route is None:
            route = table.make_route(asked, tenant)
            _remember(table.routes, key, route)
        alias = table.weighted.get(route.name)
        if alias is not None:
            # A counter instead of a random number, so that tests can repeat it.
            if not alias.sticky or not conversation:
                self._requests += 1
                conversation = f"{self._requests}"
            first = _pick(alias.models, alias.weights, conversation)
            # The others stay in the chain, in their order, as fallbacks.
            rest = [model for model in alias.models if model != first]
            route = replace(route, models=(first, *rest))
        if tenant.spend is not None and table.config.keys.unpriced == "refuse":
            route = table.only_priced(route)
        if own_key and len(route.models) > 1:
            provider = f"{route.models[0].partition('/')[0]}/"
            route = replace(route, models=tuple([each for each in route.models if each.startswith(provider)]))
        return route

    def listed(self, tenant: Tenant) -> list[ListedModel]:
        """The models that this tenant may ask for, aliases first; of a pattern the known names that fit it."""
        return [each for place, each in self._table.listed if _permitted(place, tenant)]

    def targets(self) -> set[str]:
        """Every model that the configuration names, and those that are listed."""
        table = self._table
        named = {model for alias in table.config.aliases for model in alias.models}
        return named | {each.target for _, each in table.listed}

    def unpriced(self, tenant: Tenant = LOCAL) -> list[str]:
        """The models that this tenant may use and of which no price is known."""
        table = self._table
        models = [each.target for place, each in table.listed if _permitted(place, tenant)]
        for alias in table.config.aliases:
            place = _Place(alias.name, alias.models, alias)
            models += place.models if _permitted(place, tenant) else ()
        return sorted({model for model in models if not table.has_price(model)})

    def stand_in_price(self) -> Price | None:
        """What an answer of a model without a price counts as; None for nothing."""
        if self.config.keys.unpriced != "dearest":
            return None
        catalog = self.catalog
        prices = [catalog.price(catalog.resolve(name)) for name in self.targets()]
        known = [price for price in prices if price is not None]
        return dearest_price(known or [price for _, price in known_prices()])

    def served(self) -> list[str]:
        """Every name that is listed for somebody."""
        return [each.id for _, each in self._table.listed]


class _Place(Value, frozen=True):
    """What a name was understood as: the name that permissions are about, and the models behind it."""

    name: str
    models: tuple[str, ...]
    alias: Alias | None = None


class _Table:
    """One configuration, ready to route by."""

    def __init__(self, config: GatewayConfig, catalog: Catalog) -> None:
        self.config = config
        self.catalog = catalog
        self._exact: dict[str, Alias] = {}
        self._patterns: list[tuple[re.Pattern[str], Alias]] = []
        self.weighted: dict[str, Alias] = {}
        for alias in config.aliases:
            self._add(alias)
        # The longest pattern is the most specific; `sort` keeps the file's order among equals.
        self._patterns.sort(key=lambda pair: -len(pair[1].name))
        allow = config.models.allow
        self._allow = None if allow is None else [pattern_of(each) for each in allow]
        self.routes: dict[tuple[str, tuple[str, ...], str | None], Route] = {}
        self.listed = list(self._list())

    def _add(self, alias: Alias) -> None:
        where = f"{self.config.source or 'gateway.toml'}: {dotted(('aliases', alias.name))}"
        models: list[str] = []
        for model in alias.models:
            try:
                # Resolved at the start: a misspelt model in an alias is
                # an error of the configuration, not of the first client.
                models.append(self.catalog.resolve(model).name)
            except LocalError as error:
                hint = "; an alias leads to models, not to another alias" if self._is_alias(model) else ""
                raise ConfigError(f"{where}: {error}{hint}") from None
        if len(set(models)) != len(models):
            raise ConfigError(f"{where}: two names lead to the same model: {', '.join(alias.models)}")
        alias = replace(alias, models=tuple(models))
        lower = alias.name.lower()
        if alias.is_pattern:
            self._patterns.append((pattern_of(alias.name), alias))
        elif lower in self._exact:
            raise ConfigError(f"{where}: this name is already there as {self._exact[lower].name!r}")
        else:
            self._exact[lower] = alias
        if alias.weights:
            self.weighted[alias.name] = alias

    def _is_alias(self, name: str) -> bool:
        return any(each.name.lower() == name.lower() for each in self.config.aliases)

    def make_route(self, asked: str, tenant: Tenant) -> Route:
        place = self._find(asked)
        if place is None:
            raise UnknownModel(self._unknown(asked, tenant))
        if not _permitted(place, tenant):
            # 400: the key is valid and the model exists. 401 or 404 would send people looking for another mistake.
            raise BadRequest(_denied(asked, tenant), status=400, code="model_not_allowed")
        defaults, alias = self.config.defaults, place.alias
        return Route(
            asked,
            place.models,
            # Weights are looked up by the alias; permissions were about the name.
            place.name if alias is None else alias.name,
            tenant.text_calls or (alias and alias.text_calls) or defaults.text_calls,
            (alias and alias.missing_reasoning) or defaults.missing_reasoning,
            alias is None or alias.sticky,
            defaults.pass_fields if alias is None or alias.pass_fields is None else alias.pass_fields,
            tuple([(alias and getattr(alias, name)) or getattr(defaults, name) for name in _WAITS]),
        )

    def has_price(self, name: str) -> bool:
        return self.catalog.has_price(self.catalog.resolve(name))

    def only_priced(self, route: Route) -> Route:
        """The route without the models of which no price is known; BadRequest if there are no others."""
        models = tuple([name for name in route.models if self.has_price(name)])
        if not models:
            raise BadRequest(
                f"this key has a budget, and no price is known of {' or '.join(route.models)}: the gateway's operator can set "
                "input_price and output_price in config.toml",
                status=400,
                code="model_unpriced",
            )
        return route if len(models) == len(route.models) else replace(route, models=models)

    def _find(self, asked: str) -> _Place | None:
        # Names go into messages, logs and a cache.
        if len(asked) > LONGEST_NAME:
            return None
        name = _BRACKETS.sub("", asked.strip()).strip().removeprefix("models/")
        if not name:
            return None
        found = self._by_name(name) or self._by_pattern(name)
        if found is not None:
            return found
        behind = _behind(name, "anthropic/")
        if behind is not None:
            # Nobody is listed as `anthropic/claude…` but Anthropic's own models, and none of those has a slash in its name.
            if not _for_claude(behind):
                found = self._by_name(behind) or (self._direct(behind) if "/" in behind else None)
            return found or self._direct(name) or self._by_name(behind) or self._by_pattern(behind)
        behind = _behind(name, "claude-")
        return self._direct(name) or (self._by_name(behind) if behind is not None else None)

    def _by_name(self, name: str) -> _Place | None:
        alias = self._exact.get(name.lower())
        return None if alias is None else _Place(alias.name, alias.models, alias)

    def _by_pattern(self, name: str) -> _Place | None:
        for pattern, alias in self._patterns:
            if pattern.fullmatch(name):
                return _Place(name, alias.models, alias)
        return None

    def _direct(self, name: str) -> _Place | None:
        """A model that is named by its provider, or by an alias of the operator's `config.toml`."""
        try:
            target = self.catalog.resolve(name)
            if self._allow is not None:
                return _Place(target.name, (target.name,)) if _fits(target.name, self._allow) else None
            # A model without a key would fail at every request; it is better not to know it.
            self.catalog.check_key(target)
        except (UnknownModel, MissingKey, ConfigError):
            return None
        return _Place(target.name, (target.name,))

    def _missing_key(self, asked: str) -> str:
        """What the operator has to set before this model can be asked for by its name, if that is all it lacks."""
        if self._allow is not None or len(asked) > LONGEST_NAME:
            return ""
        try:
            self.catalog.check_key(self.catalog.resolve(asked.strip()), otherwise="give it in config.toml")
        except MissingKey as error:
            return str(error)
        except (UnknownModel, ConfigError):
            pass
        return ""

    def _list(self) -> Iterable[tuple[_Place, ListedModel]]:
        for alias in self._exact.values():
            place = _Place(alias.name, alias.models, alias)
            yield place, _listed(alias.name, alias.models[0], alias.display_name, alias.name)
        names = list(dict.fromkeys(self.catalog.names()))
        # What a client asks a pattern for are the names that models have elsewhere. `*` alone is for names nobody thought of.
        for name in dict.fromkeys([name.rpartition("/")[2] for name in names]):
            fitting = self._by_pattern(name) if name.lower() not in self._exact else None
            if fitting is not None and fitting.alias is not None and fitting.alias.name.strip("*"):
                yield fitting, _listed(name, fitting.models[0], "", fitting.alias.name)
        for name in names:
            if name.lower() in self._exact or not self._offered(name):
                continue
            direct = self._direct(name)
            if direct is not None:
                yield direct, _listed(name, direct.models[0], "")

    def _offered(self, name: str) -> bool:
        """Whether a model is worth listing: a host on this machine is, if the operator speaks of it anywhere."""
        catalog = self.catalog
        try:
            target = catalog.resolve(name)
        except LocalError:
            return False
        known = catalog.config
        return (
            self._allow is not None
            or name in known.aliases
            or target.provider in known.providers
            or target.provider not in REGISTRY.providers
            or catalog.key_source(target) is not None
            or catalog.base_variable(target) is not None
        )

    def _unknown(self, asked: str, tenant: Tenant) -> str:
        shown = asked if len(asked) <= LONGEST_NAME else f"{asked[:LONGEST_NAME]}..."
        # Suggestions name only what this key may use: error messages must not list what others have.
        known = [each.id for place, each in self.listed if _permitted(place, tenant)]
        hint = near(shown, known) or near(shown, {each.rpartition("/")[2]: None for each in known})
        if not tenant.models and (missing := self._missing_key(asked)):
            hint = f": it has {missing}."
        elif asked.strip().lower().startswith(f"{SIM}/") and SIM not in self.catalog.registry.providers:
            hint = f": {_NO_DOUBLES}."
        return f"this gateway does not serve the model {shown!r}{hint or '.'} GET /v1/models lists what it serves"


def tell_unpriced(router: Router) -> str:
    """Which of the models that are served have no price, and what follows from it; empty if there are none."""
    names = router.unpriced()
    if not names:
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return (
        f"no price is known of {', '.join(names[:_NAMED])}{more}: {_UNPRICED[router.config.keys.unpriced]}. Set input_price and "
        "output_price in config.toml, or unpriced under [keys] in gateway.toml"
    )


def pattern_of(text: str) -> re.Pattern[str]:
    """A pattern in which only `*` is special."""
    return re.compile(".*".join([re.escape(part) for part in re.split(r"\*+", text)]), re.IGNORECASE | re.DOTALL)


def _fits(name: str, patterns: Sequence[re.Pattern[str]]) -> bool:
    return any(pattern.fullmatch(name) for pattern in patterns)


def _permitted(place: _Place, tenant: Tenant) -> bool:
    """Whether a key may use this: by its name, or because every model behind it is allowed.

    The client chooses what stands for the star in an alias's pattern. So a pattern of the key permits such an alias only as a
    whole: `claude-*` permits `claude-sonnet-*`, but `claude-haiku-*` does not permit `*-opus`, though `claude-haiku-opus` is
    both."""
    if not tenant.models:
        return True
    if place.alias is not None and place.alias.is_pattern:
        if place.name.lower() in [each.lower() for each in tenant.models if "*" not in each]:
            return True
        name = place.alias.name
    else:
        name = place.name
    patterns = [pattern_of(each) for each in tenant.models]
    return _fits(name, patterns) or all(_fits(model, patterns) for model in place.models)


def _denied(asked: str, tenant: Tenant) -> str:
    return f"this key may not use the model {asked!r}; it may use {', '.join(tenant.models)}"


def _behind(name: str, prefix: str) -> str | None:
    return name[len(prefix) :] if name.lower().startswith(prefix) and len(name) > len(prefix) else None


def _listed(id: str, target: str, display_name: str, alias: str = "") -> ListedModel:
    return ListedModel(id, display_name or _title(id), target, id if _for_claude(id) else f"anthropic/{id}", alias)


def _for_claude(id: str) -> bool:
    """Whether Claude Code lists such an id."""
    return id.lower().startswith(("claude", "anthropic"))


def _title(id: str) -> str:
    """`moonshot/kimi-k2.5` as `Kimi K2.5`."""
    words = [word for word in re.split(r"[-_\s]+", id.rpartition("/")[2]) if word]
    first = [word.upper() if len(word) <= 3 else word[:1].upper() + word[1:] for word in words[:1]]
    return " ".join([*first, *[word[:1].upper() + word[1:] for word in words[1:]]]) or id


def _pick(models: Sequence[str], weights: Sequence[float], conversation: str) -> str:
    """Weighted rendezvous hashing: the same conversation gives the same model everywhere, and after a change of weights only
    as many conversations move as must."""
    best, chosen = -math.inf, models[0]
    for model, weight in zip(models, weights, strict=True):
        digest = blake2b(f"{model}\0{conversation}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
        share = (int.from_bytes(digest, "big") + 0.5) / 2**64
        # -weight / ln(share) is larger the larger the weight; the largest of all wins with a chance of weight / sum.
        score = -weight / math.log(share) if share < 1.0 else math.inf
        if score > best:
            best, chosen = score, model
    return chosen


def _remember(
    routes: dict[tuple[str, tuple[str, ...], str | None], Route],
    key: tuple[str, tuple[str, ...], str | None],
    route: Route,
) -> None:
    if len(routes) >= _REMEMBERED:
        routes.clear()
    routes[key] = route
