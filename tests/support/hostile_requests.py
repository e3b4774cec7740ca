"""Requests that two readers could read differently: a request could hide in them. And some that are odd, and good."""

from __future__ import annotations

from typing import Final

__all__ = ["HOST", "ODD_CHUNKS", "REFUSED_CHUNKS", "REFUSED_HEADS", "head"]

HOST: Final = b"Host: localhost"


def head(*fields: bytes, line: bytes = b"POST /mcp?a=b HTTP/1.1") -> bytes:
    return b"\r\n".join([line, *fields]) + b"\r\n\r\n"


REFUSED_HEADS: Final = {
    "both lengths": (head(HOST, b"Content-Length: 5", b"Transfer-Encoding: chunked"), 400),
    "both lengths, in the other order": (head(HOST, b"Transfer-Encoding: chunked", b"Content-Length: 5"), 400),
    "two lengths": (head(HOST, b"Content-Length: 5", b"Content-Length: 6"), 400),
    "one length twice": (head(HOST, b"Content-Length: 5", b"Content-Length: 5"), 400),
    "a list of lengths": (head(HOST, b"Content-Length: 5, 5"), 400),
    "a signed length": (head(HOST, b"Content-Length: +5"), 400),
    "a negative length": (head(HOST, b"Content-Length: -1"), 400),
    "no length": (head(HOST, b"Content-Length:"), 400),
    "a length of words": (head(HOST, b"Content-Length: 0x5"), 400),
    "a length with a blank": (head(HOST, b"Content-Length: 1 2"), 400),
    "a length with an underscore": (head(HOST, b"Content-Length: 1_0"), 400),
    "a length of foreign digits": (head(HOST, b"Content-Length: \xb2"), 400),
    "an endless length": (head(HOST, b"Content-Length: 99999999999999999999999999"), 400),
    "two codings": (head(HOST, b"Transfer-Encoding: gzip, chunked"), 400),
    "a coding that is not chunked": (head(HOST, b"Transfer-Encoding: identity"), 400),
    "chunked twice": (head(HOST, b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"), 400),
    "chunked before identity": (head(HOST, b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity"), 400),
    "a coding that is nearly chunked": (head(HOST, b"Transfer-Encoding: xchunked"), 400),
    "an empty coding": (head(HOST, b"Transfer-Encoding:"), 400),
    "chunked in HTTP/1.0": (head(HOST, b"Transfer-Encoding: chunked", line=b"POST / HTTP/1.0"), 400),
    "a blank before the colon": (head(HOST, b"Content-Length : 5"), 400),
    "a tab before the colon": (head(HOST, b"Transfer-Encoding\t: chunked"), 400),
    "no colon": (head(HOST, b"Content-Length 5"), 400),
    "no name": (head(HOST, b": 5"), 400),
    "a name that is no token": (head(HOST, b"Content(Length): 5"), 400),
    "a name that is not ASCII": (head(HOST, b"X-\xc3\xa9: 5"), 400),
    "obs-fold": (head(HOST, b"X: a", b" b: c"), 400),
    "obs-fold with a tab": (head(HOST, b"X: a", b"\tTransfer-Encoding: chunked"), 400),
    "obs-fold at the beginning": (head(b" Host: localhost"), 400),
    "a bare LF": (b"POST / HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n", 400),
    "a bare LF behind the request line": (b"POST / HTTP/1.1\nHost: localhost\r\n\r\n", 400),
    "no CR at all": (b"POST / HTTP/1.1\nHost: localhost\n\n", 400),
    "a bare LF at the end": (b"POST / HTTP/1.1\r\nHost: localhost\r\n\n", 400),
    "a hidden head": (head(HOST, b"X: a\n\nGET / HTTP/1.1"), 400),
    "a bare CR": (head(HOST, b"X: a\rContent-Length: 5"), 400),
    "two CRs": (head(HOST, b"X: a\r"), 400),
    "NUL in a value": (head(HOST, b"X: a\x00b"), 400),
    "a control character in a value": (head(HOST, b"X: a\x01b"), 400),
    "DEL in a value": (head(HOST, b"X: a\x7fb"), 400),
    "a vertical tab": (head(HOST, b"Transfer-Encoding:\x0bchunked"), 400),
    "no Host": (head(), 400),
    "two Hosts": (head(HOST, b"Host: localhost"), 400),
    "two Hosts in HTTP/1.0": (head(HOST, b"Host: evil", line=b"POST / HTTP/1.0"), 400),
    "a method that is no token": (head(HOST, line=b"P(ST / HTTP/1.1"), 400),
    "no target": (head(HOST, line=b"POST HTTP/1.1"), 400),
    "an empty target": (head(HOST, line=b"POST  HTTP/1.1"), 400),
    "a blank in the target": (head(HOST, line=b"POST /a b HTTP/1.1"), 400),
    "a tab in the request line": (head(HOST, line=b"POST\t/ HTTP/1.1"), 400),
    "a target that is not ASCII": (head(HOST, line=b"POST /\xff HTTP/1.1"), 400),
    "a blank at the end": (head(HOST, line=b"POST / HTTP/1.1 "), 400),
    "two empty lines before": (b"\r\n\r\n" + head(HOST), 400),
    "an empty line before that ends with a bare LF": (b"\n" + head(HOST), 400),
    "a bare LF behind an empty line": (b"\r\n\n" + head(HOST), 400),
    "a bare CR before": (b"\r" + head(HOST), 400),
    "two bare CRs before": (b"\r\r\n" + head(HOST), 400),
    "HTTP/0.9": (b"GET /\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\n", 505),
    "HTTP/9.9": (head(HOST, line=b"POST /mcp HTTP/9.9"), 505),
    "HTTP/2 with fields": (head(HOST, line=b"POST /mcp HTTP/2.0"), 505),
    "HTTP/1.2": (head(HOST, line=b"POST /mcp HTTP/1.2"), 505),
    "HTTP/1.9": (head(HOST, line=b"POST /mcp HTTP/1.9"), 505),
    "HTTP/0.9 with fields": (head(HOST, line=b"POST /mcp HTTP/0.9"), 505),
    "http in small letters": (head(HOST, line=b"POST /mcp http/1.1"), 400),
    "HTTP/1.10": (head(HOST, line=b"POST / HTTP/1.10"), 400),
    "another protocol": (head(HOST, line=b"POST / RTSP/1.0"), 400),
    "an answer": (head(HOST, line=b"HTTP/1.1 200 OK"), 400),
    "a target without a slash": (head(HOST, line=b"POST mcp HTTP/1.1"), 400),
    "a URL of another host": (head(HOST, line=b"POST http://elsewhere/mcp HTTP/1.1"), 400),
    "a URL of another port": (head(HOST, line=b"POST http://localhost:81/mcp HTTP/1.1"), 400),
    "a URL with a name": (head(HOST, line=b"POST http://localhost@elsewhere/mcp HTTP/1.1"), 400),
    "a URL without Host": (head(line=b"POST http://localhost/mcp HTTP/1.0"), 400),
    "a URL of another scheme": (head(HOST, line=b"POST ftp://localhost/mcp HTTP/1.1"), 400),
    "a tunnel": (head(HOST, line=b"CONNECT localhost:80 HTTP/1.1"), 400),
    "an asterisk that is posted to": (head(HOST, line=b"POST * HTTP/1.1"), 400),
    "a long method": (head(HOST, line=b"P" * 65 + b" / HTTP/1.1"), 400),
}
"""Heads, and with what they are refused."""

REFUSED_CHUNKS: Final = {
    "a bare LF behind a size": b"5\nhello\r\n0\r\n\r\n",
    "a bare LF behind a chunk": b"5\r\nhello\n0\r\n\r\n",
    "a bare LF at the end": b"0\r\n\n",
    "a chunk that is longer than it says": b"5\r\nhelloX\r\n0\r\n\r\n",
    "a negative size": b"-1\r\n\r\n",
    "a signed size": b"+5\r\nhello\r\n0\r\n\r\n",
    "a size with 0x": b"0x5\r\nhello\r\n0\r\n\r\n",
    "a size with an underscore": b"0_5\r\nhello\r\n0\r\n\r\n",
    "a blank before a size": b" 5\r\nhello\r\n0\r\n\r\n",
    "a blank behind a size": b"5 \r\nhello\r\n0\r\n\r\n",
    "no size": b"\r\nhello\r\n0\r\n\r\n",
    "a size of words": b"five\r\nhello\r\n0\r\n\r\n",
    "a size that no number holds": b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "an endless size": b"f" * 2_000,
    "an endless extension": b"5;" + b"x" * 2_000,
    "NUL in an extension": b"5;\0\r\nhello\r\n0\r\n\r\n",
    "a bare CR in an extension": b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    "a trailer that is no field": b"0\r\nX\r\n\r\n",
    "a trailer with a blank before the colon": b"0\r\nX : y\r\n\r\n",
    "a trailer with a bare LF": b"0\r\nX: y\n\r\n",
    "a trailer that goes on in the next line": b"0\r\nX: y\r\n z\r\n\r\n",
    "trailers without end": b"0\r\n" + b"X: y\r\n" * 4_000,
}
"""Bodies in chunks that are refused with 400."""

ODD_CHUNKS: Final = {
    "as it should be": b"%x\r\n%b\r\n0\r\n\r\n",
    "an extension": b"%x;a=b;c\r\n%b\r\n0;d\r\n\r\n",
    "zeros before the size": b"0000%x\r\n%b\r\n000\r\n\r\n",
    "trailers": b"%x\r\n%b\r\n0\r\nX: y\r\nX-Checksum:\r\n\r\n",
    "trailers that mean something elsewhere": b"%x\r\n%b\r\n0\r\nContent-Length: 99\r\nHost: z\r\n\r\n",
}
"""How a body in chunks may be written; its size and the body go in."""
