from __future__ import annotations

import asyncio

import pytest

from any_agent.transport.watch import Closed, Watch


async def test_result_passes_through() -> None:
    assert await Watch().wait(asyncio.sleep(0, "done"), 5) == "done"


async def test_time_that_is_up_is_a_timeout_and_no_cancellation() -> None:
    task = asyncio.current_task()
    assert task is not None
    with pytest.raises(TimeoutError):
        await Watch().wait(asyncio.sleep(60), 0.01)
    assert task.cancelling() == 0


async def test_each_await_has_its_own_time() -> None:
    watch = Watch()
    for _ in range(5):
        await watch.wait(asyncio.sleep(0.03), 0.1)
    with pytest.raises(TimeoutError):
        await watch.wait(asyncio.sleep(60), 0.02)
    await watch.wait(asyncio.sleep(0.05), None)
    watch.stop_timer()


async def test_closing_ends_the_await_that_is_going_on_and_all_later_ones() -> None:
    watch = Watch()
    waiting = asyncio.create_task(watch.wait(asyncio.sleep(60), None))
    await asyncio.sleep(0)
    watch.close()
    watch.close()
    with pytest.raises(Closed):
        await waiting
    assert waiting.cancelling() == 0
    with pytest.raises(Closed):
        await watch.wait(asyncio.sleep(0), None)
    await asyncio.sleep(0)


async def test_cancellation_from_elsewhere_stays_one() -> None:
    watch = Watch()
    waiting = asyncio.create_task(watch.wait(asyncio.sleep(60), 60))
    await asyncio.sleep(0)
    watch.close()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert waiting.cancelled()


async def test_error_of_the_awaitable_passes_through() -> None:
    async def fail() -> None:
        raise ZeroDivisionError

    watch = Watch()
    with pytest.raises(ZeroDivisionError):
        await watch.wait(fail(), 5)
    watch.stop_timer()
