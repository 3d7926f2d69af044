# One file, three images. Nothing is downloaded that the locks do not name with a hash.
#
#   base ── wheels-web ────────────┬───► web        console, control and beat: no Spark, no compiler
#     │         │                    └───► worker     steps and probes: no Spark either, it asks the API server
#     └── app   └── wheels-spark ──────► pipelines  adds PySpark and a Java runtime: the API server owns the Spark driver
#                                                   and runs people's code; Spark's master and workers run from it too
#
# Pin PYTHON_IMAGE by digest where you build: --build-arg PYTHON_IMAGE=python:3.12.12-slim-bookworm@sha256:…
ARG PYTHON_IMAGE=python:3.12.12-slim-bookworm

FROM ${PYTHON_IMAGE} AS base
# uv trusts what the base image trusts, as pip does: some registries have a certificate of the company.
ENV PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 PIP_DISABLE_PIP_VERSION_CHECK=1 UV_SYSTEM_CERTS=true PATH=/opt/venv/bin:$PATH

FROM base AS wheels-web
COPY requirements/uv.txt requirements/web.txt /requirements/
RUN python -m venv /opt/venv \
 && pip install --no-cache-dir --require-hashes -r /requirements/uv.txt \
 && python -m uv pip sync --no-cache --compile-bytecode --python /opt/venv/bin/python --require-hashes /requirements/web.txt

FROM wheels-web AS wheels-spark
COPY requirements/spark.txt /requirements/
RUN python -m uv pip sync --no-cache --compile-bytecode --python /opt/venv/bin/python --require-hashes /requirements/spark.txt

FROM base AS app
RUN groupadd --system --gid 10001 reprise \
 && useradd --system --uid 10001 --gid reprise --home-dir /var/lib/reprise --shell /usr/sbin/nologin reprise \
 && for home in /var/lib/reprise /var/lib/reprise/environments/development; do \
      install -d -o reprise -g reprise -m 0700 "$home" "$home/storage" "$home/warehouse"; \
    done && chown reprise:reprise /var/lib/reprise/environments
WORKDIR /app
COPY manage.py ./
COPY console console
COPY recovery recovery
COPY templates templates
# The root is read-only where it runs: without this, each process would compile all that it imports at each start.
RUN python -m compileall -q console recovery
ENV REPRISE_HOME=/var/lib/reprise
STOPSIGNAL SIGTERM
USER 10001:10001

FROM app AS web
COPY --from=wheels-web /opt/venv /opt/venv
EXPOSE 8000
CMD ["gunicorn", "-c", "python:console.gunicorn", "console.wsgi:application", "--bind", "0.0.0.0:8000", \
     "--workers", "2", "--threads", "8", "--worker-tmp-dir", "/tmp"]

FROM app AS worker
COPY --from=wheels-web /opt/venv /opt/venv
CMD ["celery", "-A", "console.celery", "worker", "-n", "worker@%h", "-Q", "steps", "-P", "prefork", "-c", "2", \
     "-l", "INFO", "--without-gossip", "--without-mingle"]

FROM app AS pipelines
USER root
RUN apt-get update \
 && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
 && rm -rf /var/lib/apt/lists/*
COPY --from=wheels-spark /opt/venv /opt/venv
ENV PYSPARK_PYTHON=/opt/venv/bin/python
USER 10001:10001
EXPOSE 8100
CMD ["python", "manage.py", "serve_pipelines", "--host", "0.0.0.0", "--port", "8100"]
