"""The gateway as one object: its tiers, what feeds them, the dispatcher, and the way down. Driver; the composition root
in `cli` makes it, the doors use it.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from lumbre import __version__
from lumbre.backends.traits import LLAMA_CPP
from lumbre.backends.upstream import Outbound
from lumbre.core.errors import CapacityError, OperatorError
from lumbre.core.ids import DecisionId, decision_id
from lumbre.gateway.aliases import Aliases
from lumbre.gateway.breaker import BreakerLimits
from lumbre.gateway.capability import UNKNOWN, Capability
from lumbre.gateway.deadlines import Deadlines
from lumbre.gateway.sensitive import Finder
from lumbre.ledger.store import Ledger, utc_now
from lumbre.runtime.archive import Archive
from lumbre.runtime.board import Board
from lumbre.runtime.dispatch import Dispatcher, Embeddings
from lumbre.runtime.flow import Flow
from lumbre.runtime.house import House, Rules, check_of, check_of_node
from lumbre.runtime.lanes import Lane
from lumbre.runtime.launches import EMBEDDING_SLOTS, Launch, command_launch, embedded_launch, embeddings_launch
from lumbre.runtime.models import alias_of
from lumbre.runtime.outside import made_purse, outside_of
from lumbre.runtime.records import Records
from lumbre.runtime.response_store import ResponseStore
from lumbre.runtime.schema import Settings, UpstreamSection
from lumbre.runtime.sources import Engine, Sources, said
from lumbre.runtime.tasks import TaskRoom
from lumbre.runtime.tier import Tier

log = logging.getLogger(__name__)

CUT_OFF = "cut_off"
_IDS_AT_ONCE = 256
_JITTER = 0.2
"""By how much of its time a breaker may be open for less, so that many do not come back at once."""
_CUT_OFF_S = 5
"""Each client has a second to be told."""


class Gateway:
    """Everything behind the doors.

    Args:
        settings: all of them.
        model_path: the embedded engine's file; None with another backend.
        model_alias: what its model is called.
        secret: reads a named secret, such as an upstream's key.
        environ: this process's environment; engines get what they need of it.
        embeddings_path: the file of `[embeddings] model`, where that is not the embedded engine's.

    Attributes:
        aliases: what the names of models stand for.
        knows_keys: it matters to somebody which key a request comes with.
        house: the tiers.
        flow: the operator's hand on them.
        tier: tier A.
        ledger: the record of what ran where.
        embeddings: who makes embeddings: tier A itself, or lanes of their own; None: nobody.
        responses: where responses are kept; None: nowhere.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        model_path: Path | None,
        model_alias: str,
        secret: Callable[[str], str],
        environ: Mapping[str, str],
        embeddings_path: Path | None = None,
    ) -> None:
        self.settings = settings
        self.began_at_s = int(time.time())
        self.draining = False
        self._environ = environ
        self._tasks = TaskRoom()
        self._outbound = Outbound(user_agent=f"lumbre/{__version__}")
        self._answers: dict[str, asyncio.Task[None]] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._dice, self._dice_left = b"", 0
        self.knows_keys = any(name.startswith("sha256:") for name in settings.tier_c.direct)
        self.aliases = Aliases(settings.models.alias)
        self._sources, self._embedding_sources = (
            Sources(self._outbound, self._tasks, settings.breaker, secret) for _ in range(2)
        )
        self.ledger = Ledger(settings.gateway.state_dir / "ledger")
        self.tier = self._made_tier("A", self._lanes(model_alias), self._sources)
        self._attach(model_path)
        self.house = self._made_house(secret)
        self.flow = Flow(self.house, self.ledger)
        self.embeddings = self._made_embeddings(model_path, model_alias, embeddings_path)
        self._sources.start()
        if settings.embeddings.backend == "openai":
            self._embedding_sources.start()
        self.responses = self._made_store()
        self.makes_embeddings = self._made_maker()
        tiers = [*self.house.tiers, *([] if self.embeddings in (None, self.tier) else [self.embeddings])]
        self._tiers = tiers
        self.records = Records(tiers, self.ledger)
        given = settings.tier_c
        self.dispatcher = Dispatcher(
            self.house,
            self.makes_embeddings,
            self.aliases,
            self._outbound,
            self.records,
            self.ledger,
            _deadlines(settings),
            finder=Finder(given.redact_patterns) if given.redact else None,
            reply_limit_bytes=settings.limits.reply_bytes,
            clock=asyncio.get_running_loop().time,
        )

    @property
    def board(self) -> Board:
        """The kill switches and the policy."""
        return self.house.board

    def new_decision(self) -> DecisionId:
        """An id for a request that has just arrived."""
        # The system is asked for many at once: a call to it costs more than the rest of this.
        if self._dice_left == 0:
            self._dice, self._dice_left = secrets.token_bytes(12 * _IDS_AT_ONCE), _IDS_AT_ONCE
        self._dice_left -= 1
        return decision_id(self._dice[12 * self._dice_left :])

    def refuse_if_draining(self) -> None:
        """Ask this in the moment before an answer is begun.

        Raises:
            CapacityError: 503 `draining`; the gateway takes nothing new.
        """
        if self.draining:
            raise CapacityError("the gateway is stopping and takes no new work", code="draining", retry_after_s=5)

    def begin_answer(self, decision: str, task: "asyncio.Task[None]") -> None:
        """A task makes an answer. There is no wait between `refuse_if_draining` and this."""
        self._answers[decision] = task
        self._idle.clear()

    def end_answer(self, decision: str) -> None:
        """The answer is made, or given up."""
        self._answers.pop(decision, None)
        if not self._answers:
            self._idle.set()

    @property
    def embeddings_asleep(self) -> bool:
        """Whether who makes embeddings is started by the first request for them, which has not come."""
        return not self._embedding_sources.begun

    @property
    def answers(self) -> int:
        """Answers that are being made."""
        return len(self._answers)

    async def drain(self) -> None:
        """Take nothing new, and wait for what runs; what is not done by the drain limit is cut off."""
        self.draining = True
        try:
            async with asyncio.timeout(self.settings.deadlines.drain_s):
                await self._idle.wait()
        except TimeoutError:
            log.warning("drain limit passed; cutting %d answers off", len(self._answers))
            await self.cut_off()

    async def cut_off(self) -> None:
        """End every answer now; its client is told."""
        self.draining = True
        for task in tuple(self._answers.values()):
            task.cancel(CUT_OFF)
        try:
            async with asyncio.timeout(_CUT_OFF_S):
                await self._idle.wait()
        except TimeoutError:
            log.error("%d answers would not end", len(self._answers))

    async def close(self) -> None:
        """Stop the engines, the probes and the connections."""
        self.draining = True
        self.board.close_timers()
        for tier in self._tiers:
            tier.breakers.close()
        await asyncio.gather(self._sources.stop(), self._embedding_sources.stop())
        await self._tasks.close()
        await self._outbound.close()
        self.ledger.close()
        if self.responses is not None:
            await self.responses.close()

    def _made_maker(self) -> Embeddings | None:
        if self.embeddings is None:
            return None
        is_a = self.embeddings is self.tier
        model = (self.settings.embeddings.model or None) if is_a else None
        # Vectors of different models cannot be compared: nobody else makes them in its place.
        rules = Rules(a_does_strict_json=False, on_closed="auto", c_direct=frozenset(), c_has_key=False, only_a=True)
        house = House(self.embeddings, None, None, board=self.board, purse=self.house.purse, rules=rules)
        self._embedding_house = house
        return Embeddings(house, model, self._embedding_sources.start)

    def _made_store(self) -> Archive | None:
        given = self.settings.responses
        if not given.store:
            return None
        path = self.settings.gateway.state_dir / "responses.sqlite"
        return Archive(
            ResponseStore(path, keep=given.keep, keep_bytes=given.keep_bytes, keep_s=given.keep_s, now_s=time.time)
        )

    def _made_house(self, secret: Callable[[str], str]) -> House:
        settings = self.settings
        board = Board(
            settings.gateway.state_dir / "flow.json",
            [node.id for node in settings.tier_b.nodes],
            settings.flow.policy,
            self._news,
            utc_now,
        )
        for lane in self.tier.lanes.values():
            lane.check = check_of(board, "A")
        outside = outside_of(settings.tier_c, secret)
        if outside is not None:
            outside.check = check_of(board, "C")
        purse = made_purse(settings, self.ledger, self._touch)
        rules = Rules(
            a_does_strict_json=settings.tier_a.strict_json,
            on_closed=settings.flow.closed,
            c_direct=frozenset(settings.tier_c.direct),
            c_has_key=outside is not None and outside.address is not None,
        )
        c = None if outside is None else self._made_tier("C", [outside], self._sources)
        return House(self.tier, self._made_b(board), c, board=board, purse=purse, rules=rules)

    def _made_b(self, board: Board) -> Tier | None:
        nodes = self.settings.tier_b.nodes
        if not nodes:
            return None
        lanes = [_upstream_lane(node, node.model, UNKNOWN) for node in nodes]
        for lane, node in zip(lanes, nodes, strict=True):
            lane.labels = node.labels
            lane.check = check_of_node(board, node.id, node.labels)
        tier = self._made_tier("B", lanes, self._sources)
        self._sources.probe(tier, nodes)
        return tier

    def _touch(self) -> None:
        """What the decisions know is not as it was."""
        for house in self._houses():
            house.touch()

    def _news(self) -> None:
        """A switch or the policy has moved."""
        for house in self._houses():
            house.moved()

    def _houses(self) -> list[House]:
        # While the tiers are being made they already have news.
        return [house for name in ("house", "_embedding_house") if (house := vars(self).get(name)) is not None]

    def _made_tier(self, name: str, lanes: Sequence[Lane], sources: Sources) -> Tier:
        limits = self.settings.limits
        return Tier(
            name,
            lanes,
            max_waiting=limits.waiting,
            wait_s=limits.wait_s,
            suspect=sources.suspect,
            breaker=_breaker(self.settings),
            news=self._touch,
        )

    def _lanes(self, alias: str) -> list[Lane]:
        tier_a = self.settings.tier_a
        if tier_a.backend == "embedded":
            lane = Lane("embedded", tier_a.slots, alias, traits=LLAMA_CPP, asked=True, settled=True, said=said(tier_a))
            lane.learn({alias: Capability(tier_a.context_tokens, images=False, json_schema=True)})
            return [lane]
        if tier_a.backend == "command":
            return [Lane("command", tier_a.slots, "", said=said(tier_a))]
        return [_upstream_lane(each, each.model, said(tier_a)) for each in tier_a.upstreams]

    def _attach(self, model_path: Path | None) -> None:
        tier_a = self.settings.tier_a
        if tier_a.backend == "openai":
            self._sources.probe(self.tier, tier_a.upstreams)
        else:
            (lane,) = self.tier.lanes.values()
            self._sources.supervise(self.tier, lane, self._engine(self._make_launch(model_path, lane.model), "engine"))

    def _made_embeddings(self, model_path: Path | None, alias: str, own_path: Path | None) -> Tier | None:
        given, sources = self.settings.embeddings, self._embedding_sources
        if given.backend == "off":
            return None
        if given.backend == "openai":
            lanes = [_upstream_lane(each, each.model or given.model, UNKNOWN) for each in given.upstreams]
            for lane in lanes:
                lane.check = check_of(self.board, "A")
            tier = self._made_tier("A", lanes, sources)
            sources.probe(tier, given.upstreams)
            return tier
        if model_path is None:
            return self.tier
        if given.model and given.model != self.settings.tier_a.model:
            model_path, alias = own_path, alias_of(given.model)
            if model_path is None:
                raise OperatorError(f"the file of [embeddings] model = {given.model!r} has not been fetched")
        ability = Capability(endpoints=frozenset({"embeddings"}))
        lane = Lane("embedded", EMBEDDING_SLOTS, alias, traits=LLAMA_CPP, asked=True, settled=True, said=ability)
        lane.learn({alias: Capability(given.context_tokens)})
        tier = self._made_tier("A", [lane], sources)
        sources.supervise(tier, lane, self._engine(self._make_embeddings_launch(model_path, alias), "embeddings"))
        return tier

    def _engine(self, make_launch: Callable[[], Launch], log_name: str) -> Engine:
        log_path = self.settings.gateway.state_dir / "logs" / f"{log_name}.log"
        return Engine(make_launch, self.settings.tier_a.boot_timeout_s, log_path)

    def _make_launch(self, model_path: Path | None, alias: str) -> Callable[[], Launch]:
        settings, environ = self.settings, self._environ
        if model_path is None:
            withheld = [upstream.api_key_env for upstream in settings.embeddings.upstreams]
            return lambda: command_launch(settings.tier_a, environ=environ, withheld=withheld)
        return lambda: embedded_launch(settings.tier_a, model_path, alias=alias, environ=environ)

    def _make_embeddings_launch(self, model_path: Path, alias: str) -> Callable[[], Launch]:
        settings, environ = self.settings, self._environ
        return lambda: embeddings_launch(settings, model_path, alias=alias, environ=environ)


def _upstream_lane(upstream: UpstreamSection, model: str, tier_said: Capability) -> Lane:
    own = said(upstream, upstream.context_tokens).over(tier_said)
    return Lane(upstream.id, upstream.slots, model, said=own)


def _breaker(settings: Settings) -> BreakerLimits:
    given = settings.breaker
    return BreakerLimits(given.failures, given.open_s, given.most_open_s, jitter=_JITTER, calm_s=given.most_open_s)


def _deadlines(settings: Settings) -> Deadlines:
    given = settings.deadlines
    return Deadlines(
        connect_s=given.connect_s,
        header_s=given.header_s,
        first_token_s=given.first_token_s,
        idle_s=given.idle_s,
        total_s=given.total_s,
        keepalive_s=settings.gateway.keepalive_s,
    )
