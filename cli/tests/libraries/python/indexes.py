"""Searches of one's own indexes with the filters of the service.

Reads one line of JSON: {"memories": [{"id", "workspace_id", "audience_tag", "sensitivity_label",
"review_status"}], "filters": [{"format", "filter"}], "postgres": URL}. Prints a line {"found": [ID]}
for each filter: what pgvector, Qdrant or Chroma find with it.
"""

import json
import re
import sys

import chromadb
import psycopg
from qdrant_client import QdrantClient, models

FIELDS = ("workspace_id", "audience_tag", "sensitivity_label", "review_status")
VECTOR = [1.0, 0.0]


def labels(memory):
    return {field: memory[field] for field in FIELDS}


class Pgvector:
    def __init__(self, memories, postgres):
        self.connection = psycopg.connect(postgres, autocommit=True)
        columns = ", ".join(f"{field} text" for field in FIELDS)
        self.connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        self.connection.execute(f"CREATE TEMP TABLE memories (id text, embedding vector(2), {columns})")
        rows = [(memory["id"], str(VECTOR), *labels(memory).values()) for memory in memories]
        insert = f"INSERT INTO memories VALUES (%s, %s, {', '.join(['%s'] * len(FIELDS))})"
        self.connection.cursor().executemany(insert, rows)

    def search(self, filter, limit):
        # psycopg writes parameters in order as %s.
        condition = re.sub(r"\$\d", "%s", filter["where"])
        query = f"SELECT id FROM memories WHERE {condition} ORDER BY embedding <-> %s::vector LIMIT {limit}"
        return [row[0] for row in self.connection.execute(query, [*filter["parameters"], str(VECTOR)])]


class Qdrant:
    def __init__(self, memories, _):
        self.client = QdrantClient(":memory:")
        vectors = models.VectorParams(size=2, distance=models.Distance.COSINE)
        self.client.create_collection("memories", vectors_config=vectors)
        points = [models.PointStruct(id=memory["id"], vector=VECTOR, payload=labels(memory)) for memory in memories]
        self.client.upsert("memories", points)

    def search(self, filter, limit):
        readable = models.Filter(**filter)
        found = self.client.query_points("memories", VECTOR, query_filter=readable, limit=limit)
        return [str(point.id) for point in found.points]


class Chroma:
    def __init__(self, memories, _):
        settings = chromadb.Settings(anonymized_telemetry=False)
        self.collection = chromadb.EphemeralClient(settings).create_collection("memories")
        ids = [memory["id"] for memory in memories]
        metadatas = [labels(memory) for memory in memories]
        self.collection.add(ids=ids, embeddings=[VECTOR] * len(ids), metadatas=metadatas)

    def search(self, filter, limit):
        return self.collection.query(query_embeddings=[VECTOR], where=filter, n_results=limit)["ids"][0]


INDEXES = {"pgvector": Pgvector, "qdrant": Qdrant, "chroma": Chroma}

asked = json.loads(sys.stdin.readline())
made = {}
for wanted in asked["filters"]:
    name = wanted["format"]
    if name not in made:
        made[name] = INDEXES[name](asked["memories"], asked["postgres"])
    found = made[name].search(wanted["filter"], len(asked["memories"]))
    print(json.dumps({"found": sorted(found)}))
