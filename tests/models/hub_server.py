"""A stand-in of the Hugging Face Hub on loopback: what uploading and downloading a model need."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


class HubServer(ThreadingHTTPServer):
    """Repositories with commits, in memory."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.commits: dict[str, list[str]] = {}  # of each repository, oldest first
        self.files: dict[str, dict[str, bytes]] = {}  # of each commit
        self.requests: list[str] = []
        self.tokens: set[str | None] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def commit(self, repository: str, files: dict[str, bytes]) -> str:
        """Add files to a repository."""
        history = self.commits[repository]
        content = {**(self.files[history[-1]] if history else {}), **files}
        key = repr((len(history), sorted((name, hash_(one)) for name, one in content.items())))
        commit = hashlib.sha1(key.encode()).hexdigest()
        history.append(commit)
        self.files[commit] = content
        return commit

    def resolve(self, repository: str, revision: str) -> str | None:
        """Return the commit of a revision."""
        history = self.commits.get(repository, [])
        if revision == "main":
            return history[-1] if history else None
        return next((one for one in history if one == revision), None)


def hash_(content: bytes) -> str:
    return hashlib.sha1(content).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    server: HubServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self._note()
        if match := re.fullmatch(
            r"/api/models/([^/]+/[^/]+)(?:/(revision|tree)/([^/]+))?/?(.*)", path
        ):
            repository, kind, revision, below = match.groups()
            if (commit := self._commit(repository, revision or "main")) is None:
                return
            content = self.server.files[commit].items()
            files = [(n, c) for n, c in content if not below or n.startswith(f"{below}/")]
            if kind == "tree":
                entry = {"type": "file"}
                self._json(
                    [{**entry, "path": n, "size": len(c), "oid": hash_(c)} for n, c in files]
                )
            else:
                siblings = [{"rfilename": name} for name, _ in files]
                self._json({"id": repository, "sha": commit, "siblings": siblings})
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            repository, revision, name = match.groups()
            if (commit := self._commit(repository, revision)) is None:
                return
            content = self.server.files[commit].get(name)
            if content is None:
                self._error(404, "EntryNotFound", "no such file")
                return
            headers = {"ETag": f'"{hash_(content)}"', "X-Repo-Commit": commit}
            self._send(200, content, headers)
        else:
            self._error(404, "", path)

    do_HEAD = do_GET

    def do_POST(self) -> None:
        path = self._note()
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if path == "/api/repos/create":
            given = json.loads(body)
            name = f"{given['organization']}/{given['name']}"
            self.server.commits.setdefault(name, [])
            self._json({"url": f"{self.server.url}/{name}"})
        elif path == "/api/validate-yaml":
            self._json({"errors": [], "warnings": []})
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/preupload/main", path):
            names = [file["path"] for file in json.loads(body)["files"]]
            mode = {"uploadMode": "regular", "shouldIgnore": False}
            self._json({"files": [{"path": name, **mode} for name in names]})
        elif match := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/main", path):
            lines = [json.loads(line) for line in body.splitlines()]
            new = [line["value"] for line in lines if line["key"] == "file"]
            files = {one["path"]: base64.b64decode(one["content"]) for one in new}
            commit = self.server.commit(match[1], files)
            self._json(
                {"commitUrl": f"{self.server.url}/{match[1]}/commit/{commit}", "commitOid": commit}
            )
        else:
            self._error(404, "", path)

    def _note(self) -> str:
        path = unquote(urlsplit(self.path).path)
        self.server.requests.append(f"{self.command} {path}")
        self.server.tokens.add(self.headers.get("Authorization"))
        return path

    def _commit(self, repository: str, revision: str) -> str | None:
        if repository not in self.server.commits:
            self._error(404, "RepoNotFound", "Repository not found")
            return None
        commit = self.server.resolve(repository, revision)
        if commit is None:
            self._error(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    def _json(self, value: object) -> None:
        self._send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _error(self, status: int, code: str, text: str) -> None:
        body = json.dumps({"error": text}).encode()
        self._send(status, body, {"X-Error-Code": code, "X-Error-Message": text})

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def running_hub() -> Iterator[HubServer]:
    """Run the stand-in in a thread."""
    with HubServer() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
