"""The webhook behind SNS of docs/webhooks.md, with messages that are signed as SNS signs them, by a certificate made here."""

import base64
import datetime
import http.client
import json
import sys
import threading
import urllib.error

import pytest
from cloudformation import ROOT
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

sys.path.insert(0, str(ROOT / "docs/examples"))
import sns_receiver  # noqa: E402

TOPIC = "arn:aws:sns:us-east-1:111122223333:news"
CERTIFICATE = "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0123.pem"
EVENT = {"specversion": "1.0", "id": "1", "type": "integrahub.batch.final", "data": {"status": "FAILED"}}


def self_made(key, days=1):
    """A certificate that ends, or ended, so many days from now."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sns.amazonaws.com")])
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - datetime.timedelta(days=9))
    builder = builder.not_valid_after(now + datetime.timedelta(days=days))
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


KEY, ANOTHER_KEY = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
PEM = self_made(KEY)


def signed(message, key=KEY, algorithm=hashes.SHA256()):
    """A message as SNS posts it. Its documentation lists the members that are signed."""
    message = {"MessageId": "m-1", "Timestamp": "2026-11-23T03:14:16.000Z", "TopicArn": TOPIC, **message}
    unsigned = {"SignatureVersion", "UnsubscribeURL"}
    text = "".join(f"{name}\n{message[name]}\n" for name in sorted(message) if name not in unsigned)
    signature = base64.b64encode(key.sign(text.encode(), padding.PKCS1v15(), algorithm)).decode()
    return {"SignatureVersion": "2", "SigningCertURL": CERTIFICATE, "Signature": signature, **message}


def notification(**more):
    return signed({"Type": "Notification", "Message": json.dumps(EVENT), **more})


class Posted:
    def __init__(self):
        self.events, self.fetched, self.certificate = [], [], PEM
        self.receiver = sns_receiver.Receiver(TOPIC, self.fetch)
        self.server = sns_receiver.serve(self.receiver, self.events.append, 0)
        threading.Thread(target=self.server.serve_forever, args=[0.01], daemon=True).start()

    def fetch(self, url):
        self.fetched.append(url)
        return self.certificate

    def post(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.server_address[1], timeout=120)
        connection.request("POST", "/", body if isinstance(body, bytes) else json.dumps(body).encode())
        status = connection.getresponse().status
        connection.close()
        return status


@pytest.fixture
def posted():
    posted = Posted()
    yield posted
    posted.server.shutdown()
    posted.server.server_close()


LINK = {"UnsubscribeURL": "https://sns.us-east-1.amazonaws.com/?Action=Unsubscribe"}


@pytest.mark.parametrize("more", [{}, {"Subject": "final"}, LINK], ids=["plain", "subject", "link"])
def test_an_event_that_sns_signed_is_handled(posted, more):
    assert posted.post(notification(**more)) == 204
    assert posted.post(notification(**more)) == 204
    assert posted.events == [EVENT, EVENT], "as often as it comes"
    assert posted.fetched == [CERTIFICATE], "the certificate is fetched once"


def test_a_subscription_is_confirmed_if_sns_asks_for_it(posted):
    link = "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&Token=t"
    message = {"Type": "SubscriptionConfirmation", "Message": "visit", "Token": "t", "SubscribeURL": link}
    assert posted.post(signed(message)) == 204
    assert (posted.fetched, posted.events) == ([CERTIFICATE, link], [])
    elsewhere = {**message, "SubscribeURL": "https://10.0.0.1/"}
    assert (posted.post(signed(elsewhere)), posted.fetched) == (403, [CERTIFICATE, link])


ELSEWHERE = [
    "http://sns.us-east-1.amazonaws.com/a.pem",
    "https://sns.us-east-1.amazonaws.com.example.com/a.pem",
    "https://sns.us-east-1.amazonaws.com@example.com/a.pem",
    "https://sns.us-east-1.amazonaws.com:444/a.pem",
    "https://sns.eu-west-1.amazonaws.com/a.pem",
    "https://example.com/sns.us-east-1.amazonaws.com/a.pem",
    "https://sns.us-east-1.amazonaws.com/?a.pem",
    "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-0123.pem?Action=GetEndpointAttributes",
    "https://sns.us-east-1.amazonaws.com/a/SimpleNotificationService-0123.pem",
    "https://[sns.us-east-1.amazonaws.com/a.pem",
    None,
]


@pytest.mark.parametrize("url", ELSEWHERE)
def test_no_certificate_of_another_address_is_fetched(posted, url):
    assert posted.post({**notification(), "SigningCertURL": url}) == 403
    assert (posted.fetched, posted.events) == ([], [])


@pytest.mark.parametrize(
    "message",
    [
        {**notification(), "Message": json.dumps({**EVENT, "id": "2"})},
        {**notification(), "Subject": "added"},
        {**notification(), "Type": "UnsubscribeConfirmation"},
        {**notification(), "Signature": "not base64"},
        {**notification(), "SignatureVersion": "1"},
        signed({"Type": "Notification", "Message": json.dumps(EVENT)}, key=ANOTHER_KEY),
        signed({"Type": "Notification", "Message": json.dumps(EVENT)}, algorithm=hashes.SHA1()),
        notification(TopicArn=f"{TOPIC}-of-others"),
        {name: value for name, value in notification().items() if name != "Signature"},
        {**{name: value for name, value in notification().items() if name != "MessageId"}, "Message": f"{json.dumps(EVENT)}\nMessageId\nm-1"},
        notification(MessageId="m-1\nSubject\nadded"),
        {**notification(), "Message": "\ud800"},
        [],
        b"{",
        b"[" * 100_000,
        b"\xff",
    ],
    ids=["message", "subject", "type", "signature", "version", "key", "hash", "topic", "unsigned", "moved", "split", "surrogate", "list", "cut off", "deep", "no text"],
)
def test_what_sns_did_not_sign_for_the_topic_is_refused(posted, message):
    assert posted.post(message) == 403
    assert posted.events == []


def test_a_message_that_is_no_event_is_not_sent_again(posted):
    assert posted.post(notification(Message="a text")) == 204
    assert posted.events == []


@pytest.mark.parametrize("code, status", [(404, 403), (429, 503), (503, 503)])
def test_a_certificate_that_sns_does_not_have_is_none(posted, code, status):
    def fetch(url):
        raise urllib.error.HTTPError(url, code, "", None, None)

    posted.receiver.fetch = fetch
    assert posted.post(notification()) == status


@pytest.mark.parametrize("certificate, status", [(self_made(KEY, days=-1), 403), (b"none", 503)], ids=["over", "none"])
def test_a_certificate_has_to_be_one_that_is_valid(posted, certificate, status):
    posted.certificate = certificate
    assert posted.post(notification()) == status
    assert posted.events == []


def test_a_body_has_a_bound(posted):
    connection = http.client.HTTPConnection("127.0.0.1", posted.server.server_address[1], timeout=120)
    connection.putrequest("POST", "/")
    connection.putheader("Content-Length", str(sns_receiver.LONGEST_BODY + 1))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()
