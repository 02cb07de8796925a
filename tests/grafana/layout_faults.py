"""What is wrong with where panels stand: one on another, beyond the width of the page, or with another's id."""

from __future__ import annotations

from collections.abc import Iterator

from tests.grafana.dashboard_parts import Json, name_of, panels, rows

COLUMNS = 24


def layout_faults(dashboard: Json) -> Iterator[str]:
    """Yield the panels that lie on another one, reach beyond the page, or share an id."""
    folded = [row["panels"] for row in rows(dashboard) if row.get("panels")]
    for shown in (dashboard["panels"], *folded):
        taken: set[tuple[int, int]] = set()
        for panel in shown:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            if cells & taken:
                yield f"{name_of(dashboard, panel)}: lies on another panel"
            if any(x >= COLUMNS for x, _ in cells):
                yield f"{name_of(dashboard, panel)}: reaches beyond the page"
            taken |= cells
    ids = [panel["id"] for panel in [*panels(dashboard), *rows(dashboard)]]
    yield from (f"{name_of(dashboard)}: two panels have the id {one}" for one in sorted(set(ids)) if ids.count(one) > 1)
