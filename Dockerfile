# docker build -t embedx .
# docker run --rm -v "$PWD:/data" embedx train corpus.txt --output vectors
FROM python:3.13-slim AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir /wheels/embedx-*.whl \
    && useradd --create-home --uid 1000 embedx \
    && mkdir /data /cache && chown embedx /data /cache
USER embedx
# Compiled kernels and encoded corpora; `-v embedx-cache:/cache` keeps them between runs.
ENV EMBEDX_CACHE_DIR=/cache
VOLUME /cache
WORKDIR /data
ENTRYPOINT ["embedx"]
CMD ["--help"]
