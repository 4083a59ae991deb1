"""A receiver and a sender of signed messages, by the library `standardwebhooks` from the Python registry.

Speaks JSON, a line at a time. Prints {"port"} first. A line {"path", "secret"} says what deliveries to a path are
verified with; each is printed as {"path", "id", "verified": true, "payload"} or {"path", "id", "verified": false, "error"}. A line {"url", "secret", "id",
"body"} has it sign and post the body there; it prints {"posted": STATUS}.
"""

import json
import sys
import urllib.error
import urllib.request
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

from standardwebhooks.webhooks import Webhook


SAYING = Lock()


def say(line):
    # Two threads would otherwise write their lines before either ends its own.
    with SAYING:
        print(json.dumps(line), flush=True)


class Receiver(BaseHTTPRequestHandler):
    webhooks = {}

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = {"path": self.path, "id": headers.get("webhook-id")}
        try:
            payload = self.webhooks[self.path].verify(body, headers)
            self.answer(204)
            say({**seen, "verified": True, "payload": payload})
        except Exception as error:  # Whatever it is: the test wants to see it.
            self.answer(401)
            say({**seen, "verified": False, "error": repr(error)})

    def answer(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_):
        pass


def post(order):
    now = datetime.now(timezone.utc)
    signature = Webhook(order["secret"]).sign(order["id"], now, order["body"])
    headers = {
        "content-type": "application/json",
        "webhook-id": order["id"],
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": signature,
    }
    request = urllib.request.Request(order["url"], order["body"].encode(), headers)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
Thread(target=server.serve_forever, daemon=True).start()
say({"port": server.server_port})
# To the end of the input: then whoever started it is gone.
for line in sys.stdin:
    order = json.loads(line)
    if "url" in order:
        say({"posted": post(order)})
    else:
        Receiver.webhooks[order["path"]] = Webhook(order["secret"])
