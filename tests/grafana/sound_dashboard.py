"""A small dashboard without a fault, which the checks' own tests break in one place each."""

from __future__ import annotations

from tests.grafana.dashboard_parts import Json


def _null(colour: str) -> Json:
    result = {"text": "—", "color": colour, "index": 0}
    return {"type": "special", "options": {"match": "null", "result": result}}


def sound() -> Json:
    """Return a dashboard without a fault: one panel of each kind that the checks tell apart."""
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "uid": "runwatch-fleet",
        "title": "Fleet",
        "tags": ["runwatch"],
        "schemaVersion": 38,
        "links": [
            {
                "title": "Run", "type": "link", "icon": "", "tooltip": "", "asDropdown": False, "targetBlank": False,
                "includeVars": False, "keepTime": True, "tags": [], "url": "/d/runwatch-fleet?${site:queryparam}",
            }
        ],
        "templating": {
            "list": [
                {"type": "datasource", "name": "datasource", "query": "prometheus"},
                {
                    "type": "query", "name": "site", "datasource": source,
                    "query": {"query": "label_values(mljob_info, site)", "refId": "site"},
                },
            ]
        },
        "annotations": {
            "list": [
                {
                    "name": "Gaps", "datasource": source, "enable": True, "iconColor": "blue",
                    "titleFormat": "{{cause}}", "expr": 'mljob_gap_end_timestamp_seconds{site="$site"} * 1000',
                    "useValueForTime": True,
                }
            ]
        },
        "panels": [
            {
                "id": 1, "type": "stat", "title": "Steps", "description": "Steps made.", "datasource": source,
                "gridPos": {"x": 0, "y": 0, "w": 12, "h": 4},
                "targets": [
                    {"refId": "A", "expr": 'max by (run) (mljob_step{site="$site"})', "legendFormat": "{{run}}"}
                ],
                "fieldConfig": {
                    "defaults": {
                        "unit": "none", "noValue": "—", "mappings": [_null("text")],
                        "thresholds": {
                            "mode": "absolute", "steps": [{"color": "green"}, {"color": "red", "value": 0.84}],
                        },
                    },
                    "overrides": [],
                },
            },
            {
                "id": 4, "type": "timeseries", "title": "Goodput", "description": "By job.", "datasource": source,
                "gridPos": {"x": 12, "y": 0, "w": 12, "h": 4},
                "targets": [{"refId": "A", "expr": "mljob_goodput_ratio", "legendFormat": "{{run}}"}],
                "fieldConfig": {
                    "defaults": {
                        "unit": "percentunit", "color": {"mode": "palette-classic"}, "custom": {"axisSoftMax": 0.1},
                    },
                    "overrides": [],
                },
            },
            {
                "id": 2, "type": "row", "title": "More", "collapsed": True,
                "gridPos": {"x": 0, "y": 4, "w": 24, "h": 1},
                "panels": [
                    {
                        "id": 3, "type": "table", "title": "Jobs", "description": "All.", "datasource": source,
                        "gridPos": {"x": 0, "y": 5, "w": 24, "h": 4},
                        "targets": [
                            {"refId": "A", "expr": "mljob_loss", "instant": True, "format": "table"},
                            {"refId": "B", "expr": "mljob_eta_seconds", "instant": True, "format": "table"},
                        ],
                        "transformations": [
                            {"id": "joinByField", "options": {"byField": "run", "mode": "outer"}},
                            {"id": "organize", "options": {"renameByName": {"Value #A": "Loss", "Value #B": "ETA"}}},
                        ],
                        "fieldConfig": {
                            "defaults": {"noValue": "—", "mappings": [_null("transparent")]},
                            "overrides": [
                                {
                                    "matcher": {"id": "byName", "options": name},
                                    "properties": [{"id": "unit", "value": unit}],
                                }
                                for name, unit in (("Loss", "none"), ("ETA", "s"))
                            ],
                        },
                    }
                ],
            },
        ],
    }  # fmt: skip
