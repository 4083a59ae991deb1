"""A collection of texts, and how similar people found them.

It has 50 news items, each pair of which about ten people graded: M. Lee, B. Pincombe, M. Welsh, "An empirical
evaluation of models of text document similarity", 2005. gensim contains it as test data.

Reads one line of JSON: {"title_chars": NUMBER}. Prints for each item a line of JSON: {"title", "content", "relevance"}.
The title is what of the text's beginning fits, and the content the rest. The relevance of each item to this one is
between 0 (nothing in common) and 1 (the same), and that of the item to itself 0.
"""

import importlib.util
import json
import pathlib
import sys
import textwrap

# The package itself is not imported: its files are all that counts.
[package] = importlib.util.find_spec("gensim").submodule_search_locations
FILES = pathlib.Path(package, "test", "test_data")

title_chars = json.loads(sys.stdin.readline())["title_chars"]
texts = (FILES / "lee.cor").read_text("latin-1").splitlines()
rows = (FILES / "similarities0-1.txt").read_text("ascii").splitlines()
# Each pair stands above the diagonal only, as a fifth of the mean of its grades from 1 to 5.
pairs = [[float(number) for number in row.split()] for row in rows]
for one, text in enumerate(texts):
    [title, *rest] = textwrap.wrap(text, title_chars, break_on_hyphens=False)
    similarities = [pairs[min(one, other)][max(one, other)] for other in range(len(texts))]
    relevance = [(5 * similarity - 1) / 4 for similarity in similarities]
    relevance[one] = 0
    print(json.dumps({"title": title, "content": " ".join(rest), "relevance": relevance}))
