"""An episode is read for a page alike, whether it is in memory or in a store."""

from __future__ import annotations

from envbench import connect
from envbench.workbench.page import episode_html, read

from .worlds import warehouse


def test_a_page_from_memory_is_the_page_from_the_store() -> None:
    episode = warehouse(5, 3)
    with connect(":memory:") as store:
        store.add(episode)
        stored = read(episode_html(store.episode(episode.episode_id)))
    in_memory = read(episode_html(episode))
    assert in_memory == stored
    assert len(in_memory) == 1
