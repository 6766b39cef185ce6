# docker build -t embedx .
# docker run --rm -v "$PWD:/data" embedx train corpus.txt --output vectors
#
# The root may be read-only, and the user any:
# docker run --rm --read-only --tmpfs /tmp --user "$(id -u)" -v "$PWD:/data" embedx ...
FROM python:3.13-slim AS build
WORKDIR /source
COPY . .
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.13-slim
ENV EMBEDX_CACHE_DIR=/opt/embedx
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir /wheels/embedx-*.whl
# Kernels are compiled here, for processors of this kind. On another kind, and for other
# objectives, they are compiled at the start and kept in /tmp, as encoded text is;
# `--cache-dir /data/cache` keeps encoded text between runs.
RUN cd "$(mktemp -d)" \
    && yes "a cat and a dog are in a car" | head -n 1000 > text \
    && yes "$(printf '__label__good a nice film\n__label__bad a long film')" | head -n 1000 > rows \
    && embedx train text --epochs 1 --output vectors \
    && embedx classify rows --epochs 1 --output classifier \
    && embedx predict classifier rows > /dev/null \
    && embedx cache clear && rm -r "$PWD" \
    && chmod -R a+rX /opt/embedx \
    && useradd --create-home --uid 1000 embedx && mkdir /data && chown embedx /data
USER embedx
WORKDIR /data
ENTRYPOINT ["embedx"]
CMD ["--help"]
