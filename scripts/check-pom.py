#!/usr/bin/env python3
"""check-pom.py FILE: what Maven Central asks of a package's description is there."""

import sys
import xml.etree.ElementTree as ElementTree

NEEDED = ["groupId", "artifactId", "version", "name", "description", "url", "licenses/license/name", "licenses/license/url",
          "developers/developer/name", "scm/connection", "scm/url"]

root = ElementTree.parse(sys.argv[1]).getroot()
name = {"m": "http://maven.apache.org/POM/4.0.0"}


def found(path: str) -> list[str]:
    return [node.text or "" for node in root.findall("/".join(f"m:{step}" for step in path.split("/")), name)]


for path in NEEDED:
    if not found(path) or not all(found(path)):
        sys.exit(f"{sys.argv[1]} has no {path}")
for dependency in root.findall("m:dependencies/m:dependency", name):
    optional = [node.text for node in dependency.findall("m:optional", name) + dependency.findall("m:scope", name)]
    if not set(optional) & {"true", "test"}:
        sys.exit(f"{sys.argv[1]} brings a dependency with it")
plugins = found("build/plugins/plugin/artifactId")
for plugin in ["maven-source-plugin", "maven-javadoc-plugin"]:
    if plugin not in plugins:
        sys.exit(f"{sys.argv[1]} does not use {plugin}")
version = [line for line in open("Cargo.toml") if line.startswith("version = ")][0].split('"')[1]
if found("version") != [version]:
    sys.exit(f"the version of {sys.argv[1]} is not {version}")
