"""Scores of BM25 by `bm25s`.

Reads one line of JSON: {"texts": [TEXT], "queries": [QUERY]}. Prints for each query a line of JSON with
the score of each text.
"""

import json
import re
import sys

import bm25s


def words(text):
    return re.findall(r"[^\W_]+", text.lower())


asked = json.loads(sys.stdin.readline())
model = bm25s.BM25(method="lucene", k1=1.5, b=0.75, dtype="float64")
model.index([words(text) for text in asked["texts"]], show_progress=False)
for query in asked["queries"]:
    print(json.dumps(model.get_scores(words(query)).tolist()))
