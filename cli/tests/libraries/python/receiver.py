"""A receiver and sender of signed messages with the library `standardwebhooks` from PyPI.

Input and output are JSON, one value per line.

It first prints {"port"}. The command {"path", "secret"} sets the secret that verifies deliveries to
a path; each is printed as {"path", "id", "verified": true, "payload"} or
{"path", "id", "verified": false, "error"}. The command {"url", "secret", "id", "body"} signs and
posts a body, and prints {"posted": STATUS}.
"""

import json
import sys
import urllib.error
import urllib.request
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

from standardwebhooks.webhooks import Webhook


OUTPUT = Lock()


def write(line):
    # The lock keeps lines of two threads apart.
    with OUTPUT:
        print(json.dumps(line), flush=True)


class Receiver(BaseHTTPRequestHandler):
    webhooks = {}

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        delivery = {"path": self.path, "id": headers.get("webhook-id")}
        try:
            payload = self.webhooks[self.path].verify(body, headers)
            self.answer(204)
            write({**delivery, "verified": True, "payload": payload})
        except Exception as error:  # The test reports any error.
            self.answer(401)
            write({**delivery, "verified": False, "error": repr(error)})

    def answer(self, status):
        self.send_response(status)
        self.end_headers()

    def log_message(self, *_):
        pass


def post(command):
    now = datetime.now(timezone.utc)
    signature = Webhook(command["secret"]).sign(command["id"], now, command["body"])
    headers = {
        "content-type": "application/json",
        "webhook-id": command["id"],
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": signature,
    }
    request = urllib.request.Request(command["url"], command["body"].encode(), headers)
    try:
        with urllib.request.urlopen(request) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
Thread(target=server.serve_forever, daemon=True).start()
write({"port": server.server_port})
# The input ends with the test.
for line in sys.stdin:
    command = json.loads(line)
    if "url" in command:
        write({"posted": post(command)})
    else:
        Receiver.webhooks[command["path"]] = Webhook(command["secret"])
