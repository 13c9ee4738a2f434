# The gateway in a container: docker build -t midstream . && docker run --rm -v midstream:/var/lib/midstream -p 127.0.0.1:4000:4000 midstream
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m venv /opt/midstream && /opt/midstream/bin/pip install --no-cache-dir ".[gateway,postgres]"

FROM python:3.12-slim
RUN useradd --system --create-home --home-dir /var/lib/midstream midstream
COPY --from=build /opt/midstream /opt/midstream
ENV PATH=/opt/midstream/bin:$PATH MIDSTREAM_HOME=/var/lib/midstream PYTHONUNBUFFERED=1
USER midstream
VOLUME /var/lib/midstream
EXPOSE 4000
HEALTHCHECK --interval=10s --timeout=3s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:4000/health', timeout=2)"]
STOPSIGNAL SIGTERM
# Another address than loopback needs a key, made before the first start in the volume that the gateway will use:
# docker run --rm -v midstream:/var/lib/midstream midstream midstream gateway keys create --name me
CMD ["midstream", "serve", "--host", "0.0.0.0"]
