"""What the operator does with the flow of work, and what is written down of it: switches, the policy, what stands in
the way. Driver; `Board` keeps them.
"""

import logging

from lumbre.gateway.decision import decide
from lumbre.gateway.facts import NodeState, Question
from lumbre.gateway.hints import NONE as NO_HINTS
from lumbre.gateway.policy import Policy
from lumbre.gateway.switches import Switch
from lumbre.ledger import records as entries
from lumbre.ledger.store import Ledger, utc_now
from lumbre.runtime.house import House

log = logging.getLogger(__name__)


class Flow:
    """The operator's hand on one house."""

    def __init__(self, house: House, ledger: Ledger) -> None:
        self._house = house
        self._ledger = ledger
        house.board.on_switch = self._moved
        house.board.on_policy = self._chosen

    @property
    def problems(self) -> list[str]:
        """What the operator has to know, and mend: state or records that could not be read."""
        purse = self._house.purse
        told = (self._house.board.problem, purse.problem, *purse.warnings)
        return [problem for problem in told if problem is not None]

    @property
    def serves_now(self) -> bool:
        """Whether a request that asks for nothing special would be served at once."""
        decision = decide(Question("auto", NO_HINTS), self._house.facts())
        if decision.outcome != "dispatch":
            return False
        first = decision.attempts[0]
        nodes = self._house.tier(first.tier).nodes()
        return any(node.id in first.nodes and node.state is NodeState.READY for node in nodes)

    async def move_switch(self, name: str, *, closed: bool, reason: str | None, by: str) -> Switch:
        """Close or open a switch.

        Raises:
            CallerError: there is none of this name.
            OperatorError: see `Board.close` and `Board.open`.
        """
        board = self._house.board
        return await (board.close if closed else board.open)(name, reason, by)

    async def choose_policy(self, policy: Policy, *, by: str, reason: str | None) -> None:
        """Take another policy.

        Raises:
            OperatorError: it could not be written down, and the one of before holds.
        """
        await self._house.board.choose(policy, by, reason)

    def _moved(self, switch: Switch) -> None:
        self._write_down(entries.switch(switch, utc_now()))

    def _chosen(self, policy: Policy, by: str, reason: str | None) -> None:
        self._write_down(entries.policy(policy, utc_now(), by=by, reason=reason))

    def _write_down(self, entry: entries.Entry) -> None:
        try:
            self._ledger.add_now(entry)
        except OSError as error:
            log.error("the ledger cannot be written: %s", error)  # it has been done, and holds
