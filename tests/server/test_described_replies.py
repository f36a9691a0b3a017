"""What `/openapi.json` says of the replies."""

from support.server.running import Running

OTHERS = ("/v1/chat/", "/v1/completions", "/v1/responses", "/v1/models", "/v1/indexes", "/v1/feedback")
"""The beginnings of routes whose replies are OpenAI's, streams, or one word."""


def test_each_reply_with_facts_and_queries_has_a_schema(tiny: Running) -> None:
    described = tiny.get("/openapi.json").json()["paths"]
    replies = {
        path: operation["responses"]["200"]["content"]["application/json"]["schema"]
        for path, operations in described.items()
        if path.startswith("/v1/") and not path.startswith(OTHERS)
        for operation in operations.values()
    }
    assert {"/v1/facts", "/v1/query", "/v1/sparql", "/v1/translate"} <= replies.keys()
    assert all({"$ref", "anyOf"} & schema.keys() for schema in replies.values()), replies
