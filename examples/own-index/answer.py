"""One service token, two people, two answers: an index of one's own, by filter and recall.

Usage: answer.py TEXTS QUESTION MEMBER..., where TEXTS is a file with a line {"id", "text"} for each
memory. KNOWLEDGE_URL, KNOWLEDGE_WORKSPACE and KNOWLEDGE_TOKEN are in the environment; the token is of
a service account that may act for members and knows the labels of all memories (`memory:share`).
"""

import json
import os
import sys
import urllib.request
import zlib

from qdrant_client import QdrantClient, models

URL, TOKEN, PLACE = (os.environ[f"KNOWLEDGE_{name}"] for name in ("URL", "TOKEN", "WORKSPACE"))
LABELS = {
    "workspace_id": "workspaceId",
    "audience_tag": "audienceTag",
    "sensitivity_label": "sensitivityLabel",
    "review_status": "reviewStatus",
}


def call(path, member=None, body=None):
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    if member:
        headers["Knowledge-Act-For"] = f"user:{member}"
    data = json.dumps(body).encode() if body else None
    with urllib.request.urlopen(urllib.request.Request(URL + path, data, headers)) as response:
        return json.load(response)


def embed(text):
    """Stands for a model: counts the words in 64 places."""
    vector = [0.0] * 64
    for word in text.lower().split():
        vector[zlib.crc32(word.strip("?.,").encode()) % 64] += 1.0
    return vector


def build(texts):
    index = QdrantClient(":memory:")
    vectors = models.VectorParams(size=64, distance=models.Distance.COSINE)
    index.create_collection("memories", vectors_config=vectors)
    cursor = ""
    while cursor is not None:
        page = call(f"/v1/workspaces/{PLACE}/memories?limit=200{cursor}")
        for memory in page["data"]:
            labels = {field: memory[name] for field, name in LABELS.items()}
            if text := texts.get(memory["id"]):
                point = models.PointStruct(id=memory["id"], vector=embed(text), payload=labels)
                index.upsert("memories", [point])
        cursor = page["next_cursor"] and f"&cursor={page['next_cursor']}"
    return index


def answer(index, question, member):
    path = f"/v1/workspaces/{PLACE}/access-filter?format=qdrant&approved_only=true"
    readable = models.Filter(**call(path, member)["filter"])
    found = index.query_points("memories", embed(question), query_filter=readable, limit=3)
    search = {"query": question, "limit": 3}
    if found.points:
        search["candidates"] = [{"memory_id": str(point.id)} for point in found.points]
    # What was relabelled since it was indexed is left out; the recall cites the rest.
    recalled = call(f"/v1/workspaces/{PLACE}/recalls/search", member, search)
    return [memory["content"] for memory in recalled["results"]]


if __name__ == "__main__":
    path, question, *members = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        memories = build({line["id"]: line["text"] for line in map(json.loads, file)})
    for member in members:
        print(json.dumps({"member": member, "memories": answer(memories, question, member)}))
