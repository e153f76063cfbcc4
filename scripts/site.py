#!/usr/bin/env python3
"""The pages as a site: target/site. Needs mdBook (cargo install --locked mdbook@0.4.52).

docs/SUMMARY.md has the order of the pages. They are copied to target/site-pages in the folders that they have in the repository, so that
links between them stay as they are. A link to a file that is no page leads to the repository at $SITE_REPOSITORY, or becomes plain text
without it. At the end every link of the site is followed: one that leads nowhere is an error.
"""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "target/site-pages"
SITE = ROOT / "target/site"
REPOSITORY = os.environ.get("SITE_REPOSITORY", "")
# A line of Chinese that ends within a sentence: HTML would show the end as a space.
BROKEN = re.compile(r"(?<=[\u3000-\u9fff\uff00-\uffef])\n *(?=[\u3000-\u9fff\uff00-\uffef])")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")

BOOK = """
[book]
title = "lockstock"
src = "."
language = "en"

[output.html]
default-theme = "light"
preferred-dark-theme = "navy"
no-section-label = true
additional-css = ["site.css"]

[output.html.playground]
runnable = false
"""

# Drawings and tables are wider than prose. Long names in a table break, short ones do not. A narrow screen scrolls a picture sideways.
CSS = """
:root { --content-max-width: 1040px; }
.content pre > code { font-size: 1.25rem; line-height: 1.4; }
.content td { padding: 3px 10px; }
.content td:has(code) { min-width: 14rem; }
.content td code { overflow-wrap: anywhere; }
@media (max-width: 700px) {
  .content p:has(> img[src$=".svg"]) { overflow-x: auto; }
  .content img[src$=".svg"] { max-width: none; width: 640px; }
}
"""


def named(page):
    """The name of a page in the site: that of a README is that of its folder."""
    return re.sub(r"(^|/)README\.md$", r"\1index.md", page)


def linked(text, page, pages):
    """The text of a page with its links as the site has them."""

    def replaced(match):
        picture, words, target = match.groups()
        path, _, anchor = target.partition("#")
        if not path or "://" in target or target.startswith("mailto:"):
            return match.group()
        found = normpath(join(dirname(page), path))
        if found + "/README.md" in pages:
            found += "/README.md"
        if found in pages or picture:
            back = "../" * page.count("/")
            return f"{picture}[{words}]({back}{named(found)}{'#' + anchor if anchor else ''})"
        return f"[{words}]({REPOSITORY}/blob/main/{found})" if REPOSITORY else words

    blocks = text.split("```")
    blocks[::2] = [LINK.sub(replaced, BROKEN.sub("", block)) for block in blocks[::2]]
    # Where a figure is from stands below the page: [name]: target "words of the row".
    return re.sub(r"^(\[[^\]]+\]: \S+/)README\.md#", r"\1index.md#", "```".join(blocks), flags=re.M)


class Links(HTMLParser):
    """What a page of the site leads to, and the anchors that it has."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors.add(attrs.get("id"))
        if tag in ("a", "img"):
            self.targets.append(attrs.get("href") or attrs.get("src") or "")


def broken():
    """Every link of the site that leads nowhere."""
    read = {path: Links(path.read_text()) for path in SITE.rglob("*.html") if path.name not in ("print.html", "404.html", "toc.html")}
    for path, links in read.items():
        for target in links.targets:
            if not target or "://" in target or target.startswith(("mailto:", "javascript:")) or target.endswith("print.html"):
                continue
            file, _, anchor = target.partition("#")
            found = (path.parent / unquote(file)).resolve() if file else path
            if not found.exists():
                yield f"{path.relative_to(SITE)}: there is no {target}"
            elif anchor and found in read and unquote(anchor) not in read[found].anchors:
                yield f"{path.relative_to(SITE)}: {file or path.name} has no #{unquote(anchor)}"


def main():
    summary = (ROOT / "docs/SUMMARY.md").read_text()
    pages = {normpath(join("docs", target)) for _, _, target in LINK.findall(summary)}
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs/bench", PAGES / "docs/bench", ignore=shutil.ignore_patterns("*.md", "*.json"))
    for page in pages:
        copy = PAGES / named(page)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(linked((ROOT / page).read_text(), page, pages))
    (PAGES / "SUMMARY.md").write_text(linked(summary, "docs/SUMMARY.md", pages).replace("](../", "]("))
    (PAGES / "book.toml").write_text(BOOK)
    (PAGES / "site.css").write_text(CSS)
    subprocess.run(["mdbook", "build", "--dest-dir", SITE, PAGES], check=True)
    wrong = sorted(set(broken()))
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(pages)} pages: {SITE}/index.html")


main()
