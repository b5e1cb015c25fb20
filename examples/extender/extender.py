import json, os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Extender(BaseHTTPRequestHandler):
    def do_POST(self):
        args = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        team = args["Pod"]["metadata"].get("labels", {}).get("team", "")
        fits = [name for name in args["NodeNames"] if name.startswith(team)]
        failed = {name: f"the node is not of team {team}" for name in args["NodeNames"] if name not in fits}
        body = json.dumps({"NodeNames": fits, "FailedNodes": failed}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", 8888))), Extender).serve_forever()
