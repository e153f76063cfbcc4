#!/usr/bin/env python3
"""dashboard.py DASHBOARD PROMETHEUS INSTANCE: whether a Grafana dashboard is whole, and Prometheus has series of this instance for all it asks.

Also whether Prometheus has evaluated its rules without an error, each at least once.
"""

import json
import math
import re
import sys
import time
import urllib.parse
import urllib.request

board = json.load(open(sys.argv[1]))
prometheus, instance = sys.argv[2:]


def ask(path, **words):
    with urllib.request.urlopen(f"{prometheus}/api/v1/{path}?{urllib.parse.urlencode(words)}") as answer:
        return json.load(answer)["data"]


def values(expression):
    """What the server has of it. An expression that has nothing to divide by has NaN, which Grafana does not draw."""
    expression = expression.replace("$__rate_interval", "1m").replace("$job", ".*").replace("$instance", instance)
    assert "$" not in expression, expression
    return [row["value"][1] for row in ask("query", query=expression)["result"] if not math.isnan(float(row["value"][1]))]


def eventually(what, condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


panels = board["panels"]
assert len({panel["id"] for panel in panels}) == len(panels), "two panels of one id"
taken = set()
for panel in panels:
    place = panel["gridPos"]
    assert place["x"] + place["w"] <= 24, panel["title"]
    cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
    assert not cells & taken, f"{panel['title']} lies on another panel"
    taken |= cells
    assert panel["targets"], panel["title"]
    for target in panel["targets"]:
        if "lock_wait_ms" not in target["expr"]:
            eventually(f"no series: {panel['title']}: {target['expr']}", lambda: len(values(target["expr"])) == 1)
        else:
            assert ask("query", query=target["expr"].replace("$__rate_interval", "1m").replace("$job", ".*").replace("$instance", ".*"))["result"]

variables = {variable["name"]: variable for variable in board["templating"]["list"]}
assert {"datasource", "job", "instance"} <= set(variables), variables
for name in ("job", "instance"):
    # Grafana's own function of a metric and a label.
    metric, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variables[name]["query"]["query"]).groups()
    found = {series[label] for series in ask("series", **{"match[]": metric.replace("$job", ".*")})}
    assert instance in found or name == "job" and found, (name, found)


def rules():
    return [rule for group in ask("rules")["groups"] for rule in group["rules"]]


eventually("every rule is evaluated", lambda: rules() and all(rule["health"] != "unknown" for rule in rules()))
for rule in rules():
    assert rule["health"] == "ok", rule
