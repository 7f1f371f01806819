# The server, from the repository alone:
#   docker build -t posformer .
#   docker run --rm -p 127.0.0.1:8000:8000 posformer
# The base image is pinned by digest (`make pin-image` updates it), the libraries by their hashes
# (`make lock` updates them).
FROM python:3.12.14-slim-trixie@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea AS build
WORKDIR /build
COPY requirements requirements
RUN python -m venv /opt/posformer && \
    /opt/posformer/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements/container.txt && \
    pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements/build.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY web/src web/src
RUN pip wheel --no-cache-dir --no-build-isolation --no-deps --wheel-dir dist . && \
    /opt/posformer/bin/pip install --no-cache-dir --no-deps dist/*.whl

FROM python:3.12.14-slim-trixie@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea
COPY --from=build /opt/posformer /opt/posformer
RUN useradd --system --no-create-home posformer
USER posformer
EXPOSE 8000
STOPSIGNAL SIGINT
HEALTHCHECK CMD ["/opt/posformer/bin/python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/api/health', timeout=3)"]
ENTRYPOINT ["/opt/posformer/bin/posformer", "serve", "--host", "0.0.0.0"]
