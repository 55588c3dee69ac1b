"""The wiring of node-authenticator: a login of the bus in, a question to the API server, access or none out.

It keeps nothing and owns nothing, so any number of replicas share the work. While none is there, agents that are
connected stay so until their session ends; nobody else notices.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from berth.bus.port import Access, Login, LoginRefused
from berth.kube import KubeApi
from berth.kube.resources import TOKEN_REVIEWS
from berth.node_authenticator.core.review import NotAnAgent, expiry_of, node_of, review_of
from berth.node_authenticator.core.rights import ACCOUNT, AGENT, rights_of
from berth.node_authenticator.settings import Settings
from berth.runtime import Context, serve_status


class Shell:
    """One replica."""

    def __init__(self, context: Context[Settings], api: KubeApi) -> None:
        self.context = context
        self._api = api
        self._accepted = 0
        self._refused = 0
        self._reviewed = ""
        """What the last review failed of; empty when it was answered."""

    async def run(self) -> None:
        """Answer until cancelled. Raises OSError and ValueError for a seed that is of no use."""
        context = self.context
        seed = await asyncio.to_thread(Path(context.settings.signing_seed_file).read_bytes)
        context.health.add("api-server", lambda: (not self._reviewed, self._reviewed or "answers"))
        await serve_status(context, self._facts)
        await context.bus.authenticate(self.authenticate, seed)
        context.log.info("active: answering logins of node agents", account=context.settings.agent_account)
        await asyncio.Event().wait()

    async def authenticate(self, login: Login) -> Access:
        """Decide on a login. Raises LoginRefused."""
        try:
            access = await self._access(login)
        except (NotAnAgent, ValueError) as error:
            self._refused += 1
            self.context.log.warning("a login is refused", user=login.user[:100], host=login.host, reason=str(error))
            raise LoginRefused(str(error)) from error
        self._accepted += 1
        self.context.log.info("an agent has logged in", node=access.name, host=login.host)
        return access

    async def _access(self, login: Login) -> Access:
        settings = self.context.settings
        if login.user != AGENT:
            raise NotAnAgent(f"there is no user {login.user[:100]!r}, or its password is another one")
        review = review_of(login.password, settings.token_audience)
        answer = await self._api.create(TOKEN_REVIEWS, "", review)
        self._reviewed = "" if answer.ok else f"cannot review tokens: {answer.status} {answer.message}"
        if not answer.ok:
            raise NotAnAgent(self._reviewed)
        node = node_of(answer.body, audience=settings.token_audience, account=settings.agent_account)
        until = min(expiry_of(login.password), self.context.clock.now() + settings.session_s)
        rights = rights_of(node)
        return Access(ACCOUNT, node, rights.publish, rights.subscribe, int(until))

    def _facts(self) -> dict[str, str | int | float]:
        return {"accepted": self._accepted, "refused": self._refused, "trouble": self._reviewed or "none"}


async def main(context: Context[Settings]) -> None:
    """The service: runs until it is cancelled."""
    kube = await context.kube_patiently(context.settings.kube())
    try:
        await Shell(context, kube).run()
    finally:
        await kube.close()
