#!/usr/bin/env python3
"""A webhook behind SNS: verifies each message's signature, and prints the event that it carries.

Usage: sns_receiver.py TOPIC_ARN [PORT]. It needs the package cryptography (42 or later), and a proxy
before it that ends TLS, because SNS posts to the HTTPS address of a public host. docs/webhooks.md
describes the topic and the subscription.
"""

import base64
import datetime
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.error import HTTPError
from urllib.request import urlopen

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

# An SNS message has 256 KiB at most, which JSON may escape to more.
LONGEST_BODY = 2_000_000
LONGEST_CERTIFICATE = 100_000
SECONDS = 5

# What SNS signs, in this order.
NOTIFICATION = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
CONFIRMATION = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
SIGNED = {"Notification": NOTIFICATION, "SubscriptionConfirmation": CONFIRMATION, "UnsubscribeConfirmation": CONFIRMATION}


class Forged(Exception):
    """The message is not one that SNS signed for the topic."""


def fetch(url):
    with urlopen(url, timeout=SECONDS) as answer:
        return answer.read(LONGEST_CERTIFICATE)


class Receiver:
    """Verifies the messages of one topic. Certificates are fetched once."""

    def __init__(self, topic_arn, fetch=fetch):
        self.topic_arn = topic_arn
        self.fetch = fetch
        self.certificates = {}

    def read(self, body):
        """Returns the event of a message; None if it carries none. Confirms the subscription if SNS asks for it."""
        message = self.verified(body)
        if message["Type"] == "SubscriptionConfirmation":
            self.fetch(self.of_sns(message["SubscribeURL"]))
        try:
            return json.loads(message["Message"]) if message["Type"] == "Notification" else None
        except (ValueError, RecursionError):
            # Somebody else's message, which would not become an event by being sent again.
            return None

    def verified(self, body):
        try:
            message = json.loads(body)
            names = [name for name in SIGNED[message["Type"]] if name in message or name != "Subject"]
            # Else a part of one member could be passed off as another one.
            if any("\n" in message[name] for name in names if name != "Message"):
                raise ValueError("a line break")
            text = "".join(f"{name}\n{message[name]}\n" for name in names)
            url, version, topic = message["SigningCertURL"], message["SignatureVersion"], message["TopicArn"]
            text = text.encode()
            signature = base64.b64decode(message["Signature"], validate=True)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise Forged("not a message of SNS") from error
        if topic != self.topic_arn:
            raise Forged("of another topic")
        if version != "2":
            raise Forged("not signed with SHA-256: set the topic's SignatureVersion to 2")
        try:
            self.key(self.of_sns(url)).verify(signature, text, padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature as error:
            raise Forged("the signature is of something else") from error
        return message

    def of_sns(self, url):
        """The address, if it is of SNS in the topic's region. Anybody can name an address in a message."""
        region = re.escape(self.topic_arn.split(":")[3])
        if not isinstance(url, str) or not re.match(rf"https://sns\.{region}\.amazonaws\.com(\.cn)?/", url):
            raise Forged("an address that is not of SNS")
        return url

    def key(self, url):
        # Other addresses of SNS answer with what their caller made it store.
        if not re.fullmatch(r"https://[^/?#]+/SimpleNotificationService-[0-9a-f]+\.pem", url):
            raise Forged("an address that is not of a certificate")
        certificate = self.certificates.get(url)
        if certificate is None:
            try:
                certificate = x509.load_pem_x509_certificate(self.fetch(url))
            except HTTPError as error:
                if error.code not in (403, 404, 410):
                    raise
                raise Forged("a certificate that SNS does not have") from error
            # SNS has one certificate at a time.
            self.certificates = {url: certificate}
        now = datetime.datetime.now(datetime.timezone.utc)
        if not certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc:
            raise Forged("a certificate that is not valid now")
        key = certificate.public_key()
        if not isinstance(key, rsa.RSAPublicKey):
            raise Forged("a certificate without an RSA key")
        return key


def serve(receiver, handle, port):
    """A server that calls `handle` with each event. SNS sends a message again that is answered with 5xx or 429."""

    class Handler(BaseHTTPRequestHandler):
        timeout = SECONDS

        def do_POST(self):
            try:
                length = int(self.headers.get("Content-Length", ""))
            except ValueError:
                return self.send_error(411)
            if not 0 <= length <= LONGEST_BODY:
                return self.send_error(413)
            try:
                event = receiver.read(self.rfile.read(length))
            except Forged as forged:
                return self.send_error(403, str(forged))
            except (OSError, ValueError):
                # No certificate came, or what came is none. SNS sends the message again.
                return self.send_error(503)
            if event is not None:
                # An event may come again: remember its id.
                handle(event)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            """Addresses and paths of callers are not logged."""

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    topic_arn, port = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8000
    serve(Receiver(topic_arn), lambda event: print(json.dumps(event), flush=True), port).serve_forever()
