"""aioquic as an endpoint of the QUIC interop runner: its roles, test cases and folders."""

import asyncio
import os
import ssl
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, H3Event, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import (
    ConnectionTerminated,
    ProtocolNegotiated,
    QuicEvent,
    StreamDataReceived,
    StreamReset,
)
from aioquic.quic.logger import QuicFileLogger
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite, SessionTicket

CERTS, DOWNLOADS, WWW = Path("/certs"), Path("/downloads"), Path("/www")
CASES = {
    "chacha20",
    "handshake",
    "http3",
    "keyupdate",
    "multiconnect",
    "resumption",
    "retry",
    "transfer",
    "upload",
    "v2",
    "zerortt",
}
UNSUPPORTED = 127
TICKET_TIMEOUT_S = 10.0


class Server(QuicConnectionProtocol):
    """A connection of the server: hq-interop or HTTP/3."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        """Takes what its base takes."""
        super().__init__(*arguments, **more)
        self.http: H3Connection | None = None
        self.requests: dict[int, bytearray] = {}

    def quic_event_received(self, event: QuicEvent) -> None:
        """Answers requests."""
        if isinstance(event, ProtocolNegotiated):
            if event.alpn_protocol in H3_ALPN:
                self.http = H3Connection(self._quic)
        elif self.http is None and isinstance(event, StreamDataReceived):
            request = self.requests.setdefault(event.stream_id, bytearray())
            request += event.data
            if event.end_stream:
                del self.requests[event.stream_id]
                words = bytes(request).split()
                content = read(words[1].decode()) if len(words) == 2 else None
                self._quic.send_stream_data(event.stream_id, content or b"", end_stream=True)
        if self.http is not None:
            for http_event in self.http.handle_event(event):
                self.http_event_received(self.http, http_event)

    def http_event_received(self, http: H3Connection, event: H3Event) -> None:
        """Serves GET; keeps what POST and PUT send, and says how much it was."""
        if isinstance(event, HeadersReceived):
            headers = dict(event.headers)
            if headers.get(b":method") in (b"POST", b"PUT"):
                self.requests[event.stream_id] = bytearray()
            else:
                answer(http, event.stream_id, read(headers.get(b":path", b"").decode()))
                return
        if isinstance(event, HeadersReceived | DataReceived) and event.stream_id in self.requests:
            if isinstance(event, DataReceived):
                self.requests[event.stream_id] += event.data
            if event.stream_ended:
                received = self.requests.pop(event.stream_id)
                (Path("/logs") / "upload").write_bytes(received)
                answer(http, event.stream_id, b"%d bytes\n" % len(received))


def read(path: str) -> bytes | None:
    """The file of this path, if there is one."""
    file = WWW / path.lstrip("/")
    inside = file.resolve().is_relative_to(WWW.resolve())
    return file.read_bytes() if inside and file.is_file() else None


def answer(http: H3Connection, stream: int, content: bytes | None) -> None:
    """Sends a response: what there is, or that there is nothing."""
    status = b"404" if content is None else b"200"
    http.send_headers(stream, [(b":status", status)])
    http.send_data(stream, content or b"", end_stream=True)


class Client(QuicConnectionProtocol):
    """A connection of the client: hq-interop or HTTP/3."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        """Takes what its base takes."""
        super().__init__(*arguments, **more)
        self.http: H3Connection | None = None
        self.waiting: dict[int, tuple[asyncio.Future[bytes], bytearray]] = {}

    def get(self, url: str) -> asyncio.Future[bytes]:
        """Asks for a file."""
        http = self.http
        parts = urlsplit(url)
        stream = self._quic.get_next_available_stream_id()
        done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.waiting[stream] = (done, bytearray())
        if http is None:
            self._quic.send_stream_data(stream, f"GET {parts.path}\r\n".encode(), end_stream=True)
        else:
            fields = {
                ":method": "GET",
                ":scheme": "https",
                ":authority": parts.netloc,
                ":path": parts.path,
            }
            headers = [(name.encode(), value.encode()) for name, value in fields.items()]
            http.send_headers(stream, headers, end_stream=True)
        return done

    def quic_event_received(self, event: QuicEvent) -> None:
        """Takes answers."""
        if isinstance(event, ConnectionTerminated | StreamReset):
            for done, _ in self.waiting.values():
                if not done.done():
                    done.set_exception(ConnectionError(f"{event}"))
        elif self.http is not None:
            for http_event in self.http.handle_event(event):
                if isinstance(http_event, HeadersReceived):
                    if dict(http_event.headers).get(b":status") != b"200":
                        self.fail(http_event.stream_id, f"answer {http_event.headers}")
                    self.took(http_event.stream_id, b"", http_event.stream_ended)
                elif isinstance(http_event, DataReceived):
                    self.took(http_event.stream_id, http_event.data, http_event.stream_ended)
        elif isinstance(event, StreamDataReceived):
            self.took(event.stream_id, event.data, event.end_stream)

    def fail(self, stream: int, why: str) -> None:
        """Gives up one request."""
        done, _ = self.waiting[stream]
        if not done.done():
            done.set_exception(ConnectionError(why))

    def took(self, stream: int, data: bytes, is_end: bool) -> None:
        """Adds to an answer."""
        if stream in self.waiting:
            done, content = self.waiting[stream]
            content += data
            if is_end and not done.done():
                done.set_result(bytes(content))


def configuration(case: str, is_client: bool) -> QuicConfiguration:
    """What a case wants of a connection."""
    config = QuicConfiguration(
        is_client=is_client,
        alpn_protocols=H3_ALPN if case in ("http3", "upload") else ["hq-interop"],
        supported_versions=[QuicProtocolVersion.VERSION_1],
    )
    if is_client:
        config.verify_mode = ssl.CERT_NONE
    else:
        config.load_cert_chain(CERTS / "cert.pem", CERTS / "priv.key")
    if case == "chacha20":
        config.cipher_suites = [CipherSuite.CHACHA20_POLY1305_SHA256]
    if case == "v2":
        config.supported_versions.insert(0, QuicProtocolVersion.VERSION_2)
        if is_client:
            config.original_version = QuicProtocolVersion.VERSION_1
    if "QLOGDIR" in os.environ:
        config.quic_logger = QuicFileLogger(os.environ["QLOGDIR"])
    if "SSLKEYLOGFILE" in os.environ:
        # One line at a time: the endpoint may be ended at any moment.
        file = Path(os.environ["SSLKEYLOGFILE"])
        config.secrets_log_file = file.open("a", buffering=1)
    return config


async def fetch(config: QuicConfiguration, urls: list[str], case: str) -> SessionTicket | None:
    """Gets files over one connection; gives the session ticket."""
    parts = urlsplit(urls[0])
    ticket: asyncio.Future[SessionTicket] = asyncio.get_running_loop().create_future()

    def keep(given: SessionTicket) -> None:
        if not ticket.done():
            ticket.set_result(given)

    early = case == "zerortt" and config.session_ticket is not None
    async with connect(
        parts.hostname or "",
        parts.port or 443,
        configuration=config,
        create_protocol=Client,
        session_ticket_handler=keep,
        wait_connected=not early,
    ) as client:
        assert isinstance(client, Client)
        if case == "http3":
            client.http = H3Connection(client._quic)
        if case == "keyupdate":
            await client.ping()
            client.request_key_update()
        answers = [client.get(url) for url in urls]
        client.transmit()
        for url, content in zip(urls, await asyncio.gather(*answers), strict=True):
            (DOWNLOADS / Path(urlsplit(url).path).name).write_bytes(content)
        if case in ("resumption", "zerortt"):
            return await asyncio.wait_for(ticket, TICKET_TIMEOUT_S)
    return None


async def client(case: str) -> None:
    """Gets all files as the case wants them."""
    urls = os.environ.get("REQUESTS", "").split()
    if case == "multiconnect":
        for url in urls:
            await fetch(configuration(case, is_client=True), [url], case)
    elif case in ("resumption", "zerortt"):
        config = configuration(case, is_client=True)
        ticket = await fetch(config, urls[:1], case)
        config = configuration(case, is_client=True)
        config.session_ticket = ticket
        await fetch(config, urls[1:], "resumed" if case == "resumption" else case)
    else:
        await fetch(configuration(case, is_client=True), urls, case)


async def server(case: str) -> None:
    """Serves until it is ended."""
    tickets: dict[bytes, SessionTicket] = {}

    def keep(ticket: SessionTicket) -> None:
        tickets[ticket.ticket] = ticket

    await serve(
        "::",
        443,
        configuration=configuration(case, is_client=False),
        create_protocol=Server,
        session_ticket_fetcher=lambda label: tickets.pop(label, None),
        session_ticket_handler=keep,
        retry=case == "retry",
    )
    await asyncio.Event().wait()


def main() -> int:
    """Does what the environment says."""
    role, case = os.environ.get("ROLE"), os.environ.get("TESTCASE", "")
    if case not in CASES or (role, case) == ("client", "upload"):
        print(f"test case {case} is not supported as {role}", file=sys.stderr)
        return UNSUPPORTED
    asyncio.run(server(case) if role == "server" else client(case))
    return 0


if __name__ == "__main__":
    sys.exit(main())
