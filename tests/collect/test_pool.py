"""Fetching side by side: order, errors, and a signal that comes while everything waits."""

from __future__ import annotations

import signal
import threading

import pytest

from firstfault.collect.pool import fetch_all


def test_results_come_in_the_order_of_what_was_wanted():
    """Also when the first one is the last to be there."""
    last_came = threading.Event()

    def fetch(number):
        if number == 0:
            assert last_came.wait(60)
        if number == 4:
            last_came.set()
        return number * 10

    assert fetch_all(fetch, range(5), threads=2) == [0, 10, 20, 30, 40]
    assert fetch_all(fetch, [], threads=2) == []


def test_an_error_leaves_out_what_had_not_begun():
    """The error is raised as it was; two threads can have begun no more than a few of a thousand."""
    begun = []

    def fetch(number):
        begun.append(number)
        raise OSError(number)

    with pytest.raises(OSError, match=r"^\d+$"):
        fetch_all(fetch, range(1000), threads=2)
    assert len(begun) < 1000


class Told(BaseException):
    """What the handler of this test raises."""


def test_a_signal_that_does_not_wake_the_waiting_thread_is_still_seen():
    """The kernel gave it to another thread, or it came on the way to sleep: nobody waits for the fetch to end."""
    released, ended = threading.Event(), threading.Event()
    seen = []

    def fetch(_):
        # A signal taken by this thread has its Python handler run in the main thread, which it does not wake.
        for _ in range(600):
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
            if released.wait(0.1):
                break
        ended.set()

    def told(*_):
        seen.append(1)
        if len(seen) == 5:  # the first may have come before anybody slept
            raise Told

    before = signal.signal(signal.SIGUSR1, told)
    try:
        with pytest.raises(Told):
            fetch_all(fetch, ["a log"], threads=1)
    finally:
        released.set()
        assert ended.wait(60)  # it signals no more
        signal.signal(signal.SIGUSR1, before)
