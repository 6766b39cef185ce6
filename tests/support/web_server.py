"""A web server on this machine that fails in every way a server can."""

import contextlib
import http.server
import threading


class Site:
    """What a web server has and what it can be made to do: `contents` by path, and under any other
    name one file, if there is one.
    """

    def __init__(self, content):
        self.content = content
        self.contents = {}
        self.url = ""
        self.has_ranges = True
        self.date = "Fri, 01 Mar 2024 12:00:00 GMT"
        self.missing_bytes = 0  # that it promises, and does not send
        self.cuts = []  # bytes after which the connections end, one after the other
        self.statuses = {}  # by path
        self.moved = {}  # path: where to
        self.then = lambda: None  # what happens after the first answer
        self.asked = []  # (path, Range)
        self.agents = []  # User-Agent of each request
        self.n_resumed = 0
        self.other_part = None  # Content-Range of an answer that was not asked for


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        site = self.server.site
        path = self.path
        byte_range = self.headers.get("Range")
        site.asked.append((path, byte_range))
        site.agents.append(self.headers["User-Agent"])
        if path in site.statuses:
            return self.send_error(site.statuses[path])
        if path in site.moved:
            self.send_response(302)
            self.send_header("Location", site.moved[path])
            return self.end_headers()
        if site.other_part is not None:  # whatever was asked for
            self.send_response(206)
            self.send_header("Content-Range", site.other_part)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"wrong")
            return None
        content = site.contents.get(path.partition("?")[0], site.content)
        if content is None:
            return self.send_error(404)
        is_unchanged = self.headers["If-Range"] in (None, site.date)
        starts = byte_range is not None and site.has_ranges and is_unchanged
        start = int(byte_range.removeprefix("bytes=").partition("-")[0] or 0) if starts else 0
        if starts and start >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            return self.end_headers()
        site.n_resumed += starts
        self.send_response(206 if starts else 200)
        if starts:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        self.send_header("Content-Length", str(len(content) - start + site.missing_bytes))
        if site.date:
            self.send_header("Last-Modified", site.date)
        self.end_headers()
        self.wfile.write(content[start:][: site.cuts.pop(0) if site.cuts else None])
        site.then()
        return None

    def log_message(self, *_): ...


@contextlib.contextmanager
def serving(content=None):
    """A `Site` with that content, if any, served while the block runs."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.site = Site(content)
        server.site.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.site
        finally:
            server.shutdown()
            thread.join()
