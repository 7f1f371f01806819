# The server, from the repository alone:
#   docker build -t posformer .
#   docker run --rm -p 127.0.0.1:8000:8000 posformer
FROM python:3.12-slim AS build
WORKDIR /build
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/posformer && /opt/posformer/bin/pip install --no-cache-dir '.[serve,formats]'

FROM python:3.12-slim
COPY --from=build /opt/posformer /opt/posformer
RUN useradd --system --no-create-home posformer
USER posformer
EXPOSE 8000
STOPSIGNAL SIGINT
HEALTHCHECK CMD ["/opt/posformer/bin/python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/api/health', timeout=3)"]
ENTRYPOINT ["/opt/posformer/bin/posformer", "serve", "--host", "0.0.0.0"]
