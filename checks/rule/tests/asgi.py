"""Serves one ASGI application over HTTP/1.1 with Python's own server: for tests.

python3 asgi.py FOLDER MODULE:NAME PORT
"""

import asyncio
import importlib
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

folder, name, port = sys.argv[1:]
sys.path.insert(0, folder)
module, _, attribute = name.partition(":")
app = getattr(importlib.import_module(module), attribute)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def respond(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = [(key.lower().encode(), value.encode()) for key, value in self.headers.items()]
        scope = {"type": "http", "method": self.command, "path": self.path, "headers": headers}
        sent = []

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message):
            sent.append(message)

        asyncio.run(app(scope, receive, send))
        self.send_response(sent[0]["status"])
        for key, value in sent[0]["headers"]:
            self.send_header(key.decode(), value.decode())
        self.end_headers()
        self.wfile.write(sent[1]["body"])

    do_GET = do_POST = respond

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()
