# The hub: the server on DynamoDB. `make image IMAGE=uri` builds and pushes it, docs/operations.md says how to run it.
# Build it for linux/arm64, the platform of the task in infra/template/hub.yaml.
FROM python:3.13-slim

ENV PYTHONUNBUFFERED=1 STORE=dynamodb HOST=0.0.0.0 PORT=8000
WORKDIR /annals

COPY requirements.txt requirements-server.txt requirements-hub.txt ./
RUN pip install --no-cache-dir --disable-pip-version-check -r requirements-hub.txt

COPY app.py ./
COPY chalicelib chalicelib
COPY infra/__init__.py infra/
COPY infra/server infra/server
RUN python -m compileall -q app.py chalicelib infra && useradd --system --uid 10001 annals

USER 10001
EXPOSE 8000
ENTRYPOINT ["python", "-m", "infra.server"]
