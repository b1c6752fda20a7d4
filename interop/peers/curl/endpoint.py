"""curl (libcurl with ngtcp2) as a client of the QUIC interop runner."""

import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

from curl_cffi import CurlHttpVersion, requests

UNSUPPORTED = 127


def main() -> int:
    """Gets the files over HTTP/3, which is all that curl speaks."""
    role, case = os.environ.get("ROLE"), os.environ.get("TESTCASE", "")
    if role != "client" or case != "http3":
        print(f"test case {case} is not supported as {role}", file=sys.stderr)
        return UNSUPPORTED
    # curl_cffi offers TLS 1.3 only in the likeness of a browser.
    with requests.Session(
        http_version=CurlHttpVersion.V3ONLY, verify=False, impersonate="chrome"
    ) as session:
        for url in os.environ.get("REQUESTS", "").split():
            answer = session.get(url, timeout=60)
            answer.raise_for_status()
            name = Path(urlsplit(url).path).name
            (Path("/downloads") / name).write_bytes(answer.content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
