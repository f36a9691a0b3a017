# ReFactX's server and commands, with torch for CPUs, run by a user without rights. `docker compose up` starts it with
# PostgreSQL and the demo's index; `docker run IMAGE refactx --help` runs any command.
FROM python:3.13-slim AS build
WORKDIR /src
COPY . .
RUN python -m venv /opt/refactx && \
    /opt/refactx/bin/pip install --no-cache-dir --no-deps --index-url https://download.pytorch.org/whl/cpu \
        "$(grep '^torch==' constraints.txt)" && \
    /opt/refactx/bin/pip install --no-cache-dir -c constraints.txt ".[gguf,serve]"

FROM python:3.13-slim
RUN useradd --uid 10001 --create-home --home-dir /data refactx && \
    mkdir /data/cache && chown refactx: /data/cache
COPY --from=build /opt/refactx /opt/refactx
ENV PATH=/opt/refactx/bin:$PATH REFACTX_HOME=/data XDG_CACHE_HOME=/data/cache HF_HOME=/data/cache/huggingface
USER 10001
WORKDIR /data
VOLUME /data
EXPOSE 8000
# The index and the model are made once, and kept in the database and in /data.
CMD ["sh", "-c", "refactx index show demo > /dev/null 2>&1 || refactx demo && exec refactx serve --model demo --index demo --host 0.0.0.0 --no-auth"]
HEALTHCHECK --interval=5s --timeout=5s --start-period=15m \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/ready', timeout=4)"]
