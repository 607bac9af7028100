"""The official libraries, one class each: how its provider signs a delivery, and whether the library takes one.

What signs is the library's own code where it has a signer, and its own digest function where it only verifies. Nothing
here comes from Oncefold.
"""

import base64
import hashlib
import hmac
import json
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from urllib.parse import parse_qsl, urlencode

import Adyen.util
import discord_interactions
import slack_sdk.signature
import standardwebhooks.webhooks
import stripe
import svix.webhooks
import twilio.request_validator
from hubspot.utils.signature import Signature as HubSpotSignature
from mollie.utils.webhooks.signature_validator import SignatureValidator as MollieValidator
from nacl.signing import SigningKey
from paddle_billing.Notifications import PaddleSignature, Secret as PaddleSecret, Verifier as PaddleVerifier
from square.utils.webhooks_helper import verify_signature as verify_square


@dataclass
class Delivery:
    """One HTTP request: what is behind `/in/{source}`, headers by lower-case name, the body's bytes."""

    headers: dict
    body: bytes
    query: str = ""

    def with_header(self, name, value):
        return replace(self, headers={**self.headers, name: value})

    def without(self, *names):
        return replace(self, headers={n: v for n, v in self.headers.items() if n not in names})

    def text(self):
        return self.body.decode("utf-8")


class Library:
    """A library at work for one source. `event` makes a body with its event ids; `sign` is the provider's side at a
    Unix second, `accepts` the receiver's (an exception is a refusal)."""

    signature = None  # the header with the signature
    timed = None  # the header with the signed time, where it has one of its own
    separator = None  # between two signatures in one header

    def __init__(self, source, secret, url):
        self.source, self.secret, self.url = source, secret, url

    def event(self, event_id, data):
        body = {"id": event_id, "event_id": event_id, "type": "thing.changed", "event_type": "thing.changed"}
        return dump({**body, "scope": "store/thing", "event": {"type": "thing"}, "data": data}, event_id), [event_id]


def dump(document, seed):
    """JSON as senders write it: compact or spaced, escaped or not, with and without a newline at its end."""
    style = sum(seed.encode()) % 4
    text = json.dumps(document, ensure_ascii=style % 2 == 0, separators=[(",", ":"), (", ", ": ")][style // 2])
    return (text + "\n" * (style == 3)).encode()


def utc(at):
    return datetime.fromtimestamp(at, tz=timezone.utc)


class StandardWebhooks(Library):
    signature, timed, separator = "webhook-signature", "webhook-timestamp", " "
    family, module = "webhook", standardwebhooks.webhooks

    def webhook(self):
        return self.module.Webhook(self.secret)

    def sign(self, body, event_id, at):
        signature = self.webhook().sign(event_id, utc(at), body.decode())
        family = self.family
        headers = {f"{family}-id": event_id, f"{family}-timestamp": str(at), f"{family}-signature": signature}
        return Delivery(headers, body)

    def accepts(self, delivery):
        self.webhook().verify(delivery.body, delivery.headers)
        return True

    def cases(self, sign, good, other):
        mine, theirs = (d.headers[self.signature] for d in (good, other))
        yield "unknown version first", good.with_header(self.signature, f"v9,AAAA {mine}")
        yield "asymmetric beside", good.with_header(self.signature, f"v1a,{'A' * 86}== {mine}")
        yield "another in front", good.with_header(self.signature, f"{theirs} {mine}")
        yield "another behind", good.with_header(self.signature, f"{mine} {theirs}")
        yield "entry without comma", good.with_header(self.signature, f"v1 {mine}")
        yield "version changed", good.with_header(self.signature, mine.replace("v1,", "v2,"))
        yield "id changed", good.with_header(f"{self.family}-id", "msg_other")
        yield "fractional time", good.with_header(self.timed, good.headers[self.timed] + ".0")
        yield "no id", good.without(f"{self.family}-id")


class Svix(StandardWebhooks):
    signature, timed, family, module = "svix-signature", "svix-timestamp", "svix", svix.webhooks

    def cases(self, sign, good, other):
        yield from super().cases(sign, good, other)
        unbranded = {name.replace("svix-", "webhook-"): value for name, value in good.headers.items()}
        yield "unbranded headers", replace(good, headers=unbranded)
        yield "headers of both families", replace(good, headers=unbranded).without("webhook-id").with_header(
            "svix-id", good.headers["svix-id"]
        )


class BigCommerce(StandardWebhooks):
    """Standard Webhooks, with the text of the client secret as its key."""

    def webhook(self):
        return self.module.Webhook(base64.b64encode(self.secret.encode()).decode())


class Stripe(Library):
    signature, separator = "stripe-signature", ","

    def sign(self, body, event_id, at):
        header = stripe.WebhookSignature.generate_signature_header(body.decode(), self.secret, at)
        return Delivery({self.signature: header}, body)

    def accepts(self, delivery):
        header = delivery.headers.get(self.signature)
        return stripe.WebhookSignature.verify_header(delivery.body, header, self.secret, 300)

    def cases(self, sign, good, other):
        mine = good.headers[self.signature]
        time, tag = mine.split(",")
        theirs = other.headers[self.signature].split(",")[1]
        for name, value in [
            ("another in front", f"{time},{theirs},{tag}"),
            ("another behind", f"{mine},{theirs}"),
            ("old version beside", f"{mine},v0={'0' * 64}"),
            ("time behind", f"{tag},{time}"),
            ("unknown field", f"x=1,{mine}"),
            ("space behind comma", f"{time}, {tag}"),
            ("two times", f"{mine},t=1"),
            ("two times, old first", f"t=1,{mine}"),
            ("no time", tag),
            ("no v1", f"{time},v0={tag[3:]}"),
            ("no number", mine.replace("t=", "t=x")),
        ]:
            yield name, good.with_header(self.signature, value)


class Slack(Library):
    signature, timed = "x-slack-signature", "x-slack-request-timestamp"

    def verifier(self):
        return slack_sdk.signature.SignatureVerifier(self.secret)

    def sign(self, body, event_id, at):
        signature = self.verifier().generate_signature(timestamp=str(at), body=body)
        return Delivery({self.timed: str(at), self.signature: signature}, body)

    def accepts(self, delivery):
        return self.verifier().is_valid_request(delivery.body, delivery.headers)

    def cases(self, sign, good, other):
        yield "version changed", good.with_header(self.signature, good.headers[self.signature].replace("v0=", "v1="))
        yield "no time", good.without(self.timed)


class Adyen_(Library):
    def item(self, event_id, data):
        return {
            "additionalData": {},
            "amount": {"currency": "EUR", "value": sum(event_id.encode())},
            "eventCode": "AUTHORISATION",
            "eventDate": "2026-01-02T03:04:05+01:00",
            "merchantAccountCode": "Shop",
            "merchantReference": f"a:b\\c/{json.dumps(data, ensure_ascii=False)[:60]}",
            "pspReference": event_id,
            "success": "true",
        }

    def event(self, event_id, data):
        # Signed in `sign`, since the signature is a part of the body.
        return json.dumps(self.item(event_id, data)).encode(), [f"Shop:{event_id}:AUTHORISATION:true"]

    def signed(self, item):
        signature = Adyen.util.generate_notification_sig({**item}, self.secret).decode()
        return {"NotificationRequestItem": {**item, "additionalData": {"hmacSignature": signature}}}

    def sign(self, body, event_id, at):
        batch = {"live": "false", "notificationItems": [self.signed(json.loads(body))]}
        return Delivery({}, dump(batch, event_id))

    def accepts(self, delivery):
        return Adyen.util.is_valid_hmac_notification(json.loads(delivery.body), self.secret)

    def cases(self, sign, good, other):
        batch = json.loads(good.body)
        item = batch["notificationItems"][0]["NotificationRequestItem"]

        def changed(**members):
            one = {"NotificationRequestItem": {**item, **members}}
            return Delivery({}, json.dumps({**batch, "notificationItems": [one]}).encode())

        forged = {"NotificationRequestItem": {**item, "success": "false"}}
        both = {**batch, "notificationItems": batch["notificationItems"] + [forged]}
        yield "second item forged", Delivery({}, json.dumps(both).encode())
        yield "amount changed", changed(amount={"currency": "EUR", "value": 1})
        yield "success changed", changed(success="false")
        yield "reference changed", changed(merchantReference="other")
        yield "signature empty", changed(additionalData={"hmacSignature": ""})
        yield "signature of another", changed(
            additionalData=json.loads(other.body)["notificationItems"][0]["NotificationRequestItem"]["additionalData"]
        )


class AdyenPlatform(Library):
    signature = "hmacsignature"

    def sign(self, body, event_id, at):
        return Delivery({self.signature: Adyen.util.generate_payload_sig(body, self.secret).decode()}, body)

    def accepts(self, delivery):
        return Adyen.util.is_valid_hmac_payload(delivery.headers[self.signature], self.secret, delivery.body)


class Form(dict):
    """Parameters with all values of a name, as web frameworks give them to the library."""

    def __init__(self, body):
        pairs = parse_qsl(body.decode(), keep_blank_values=True, strict_parsing=True)
        super().__init__({name: [v for n, v in pairs if n == name] for name, _ in pairs})

    def getlist(self, name):
        return self[name]


class Twilio(Library):
    """A form; the parameters are signed in order of their names, whatever their order in the body."""

    signature = "x-twilio-signature"
    content_type = "application/x-www-form-urlencoded"
    algorithm = "HMAC_SHA1"

    def event(self, event_id, data):
        pairs = {"MessageSid": event_id, "MessageStatus": "sent", "To": "+420 1", "Body": json.dumps(data)}
        return urlencode(pairs).encode(), [event_id]

    def full_url(self, query):
        return f"{self.url}?{query}" if query else self.url

    def parameters(self, body):
        return Form(body)

    def sign(self, body, event_id, at, query=""):
        validator = twilio.request_validator.RequestValidator(self.secret)
        signature = validator.compute_signature(self.full_url(query), self.parameters(body), self.algorithm)
        headers = {"content-type": self.content_type, self.signature: signature}
        return Delivery({**headers, **self.settings()}, body, query)

    def settings(self):
        named = {"x-twilio-webhooks-signature-settings": f"key=k1,algorithm={self.algorithm}"}
        return named if self.algorithm != "HMAC_SHA1" else {}

    def accepts(self, delivery):
        validator = twilio.request_validator.RequestValidator(self.secret)
        named = delivery.headers.get("x-twilio-webhooks-signature-settings")
        algorithm = twilio.request_validator.get_signature_algorithm(named)
        parameters = self.parameters(delivery.body)
        url = self.full_url(delivery.query)
        return validator.validate(url, parameters, delivery.headers[self.signature], algorithm)

    def cases(self, sign, good, other):
        pairs = good.body.split(b"&")
        yield "parameters in another order", replace(good, body=b"&".join(reversed(pairs)))
        yield "written otherwise", replace(good, body=good.body.replace(b"sent", b"%73ent"))
        yield "parameter added", replace(good, body=good.body + b"&Extra=1")
        yield "parameter removed", replace(good, body=b"&".join(pairs[:-1]))
        yield "value repeated", replace(good, body=good.body + b"&MessageStatus=sent")
        yield "query added", replace(good, query="x=1")


class TwilioShared(Twilio):
    """A shared key, which signs with SHA-256 and says so in a header that is not signed."""

    algorithm = "HMAC_SHA256"

    def cases(self, sign, good, other):
        yield from super().cases(sign, good, other)
        yield "algorithm not named", good.without("x-twilio-webhooks-signature-settings")


class TwilioJson(Twilio):
    """JSON, bound by its hash in the URL."""

    content_type = "application/json"

    def event(self, event_id, data):
        return Library.event(self, event_id, data)

    def parameters(self, body):
        return {}

    def sign(self, body, event_id, at):
        return super().sign(body, event_id, at, f"bodySHA256={hashlib.sha256(body).hexdigest()}")

    def accepts(self, delivery):
        validator = twilio.request_validator.RequestValidator(self.secret)
        url = self.full_url(delivery.query)
        return validator.validate(url, delivery.text(), delivery.headers[self.signature])

    def cases(self, sign, good, other):
        changed = good.body.replace(b"thing.changed", b"thing.forged.")
        yield "hash of another body", replace(
            good, body=changed, query=f"bodySHA256={hashlib.sha256(changed).hexdigest()}"
        )
        yield "no hash", replace(good, query="")


class Square(Library):
    signature = "x-square-hmacsha256-signature"

    def sign(self, body, event_id, at):
        # The library only verifies, and has no digest function of its own.
        tag = hmac.new(self.secret.encode(), self.url.encode() + body, hashlib.sha256).digest()
        return Delivery({self.signature: base64.b64encode(tag).decode()}, body)

    def accepts(self, delivery):
        return verify_square(
            request_body=delivery.text(),
            signature_header=delivery.headers[self.signature],
            signature_key=self.secret,
            notification_url=self.url,
        )


class Paddle(Library):
    signature, separator = "paddle-signature", ";"

    def sign(self, body, event_id, at):
        tag = PaddleSignature.calculate_hmac(self.secret, f"{at}:".encode() + body).hexdigest()
        return Delivery({self.signature: f"ts={at};h1={tag}"}, body)

    def accepts(self, delivery):
        class Request:
            headers = {"Paddle-Signature": delivery.headers.get(self.signature)}
            body = delivery.body

        return PaddleVerifier().verify(Request, PaddleSecret(self.secret))

    def cases(self, sign, good, other):
        mine = good.headers[self.signature]
        time, tag = mine.split(";")
        theirs = other.headers[self.signature].split(";")[1]
        for name, value in [
            ("another in front", f"{time};{theirs};{tag}"),
            ("another behind", f"{mine};{theirs}"),
            ("time behind", f"{tag};{time}"),
            ("unknown field", f"{mine};h2=00"),
            ("two times", f"ts=1;{mine}"),
            ("no time", tag),
            ("comma", f"{time},{tag}"),
        ]:
            yield name, good.with_header(self.signature, value)


class Mollie(Library):
    signature = "x-mollie-signature"

    def sign(self, body, event_id, at):
        signature = MollieValidator.create_signature(body.decode(), self.secret)
        return Delivery({self.signature: f"sha256={signature}"}, body)

    def accepts(self, delivery):
        return MollieValidator.validate(delivery.text(), self.secret, delivery.headers.get(self.signature))

    def cases(self, sign, good, other):
        yield "no prefix", good.with_header(self.signature, good.headers[self.signature].removeprefix("sha256="))
        yield "another prefix", good.with_header(self.signature, good.headers[self.signature].replace("256", "512"))


class HubSpot(Library):
    signature, timed = "x-hubspot-signature-v3", "x-hubspot-request-timestamp"

    def event(self, event_id, data):
        ids = [f"{event_id}-{n}" for n in range(1 + len(event_id) % 3)]
        return dump([{"eventId": i, "subscriptionType": "contact.creation", "data": data} for i in ids], event_id), ids

    def sign(self, body, event_id, at):
        at = str(at * 1000)
        signature = HubSpotSignature.get_signature(self.secret, body.decode(), "v3", self.url, "POST", at)
        return Delivery({self.timed: at, self.signature: signature}, body)

    def accepts(self, delivery):
        signature, at = (delivery.headers.get(name) for name in (self.signature, self.timed))
        return HubSpotSignature.is_valid(signature, self.secret, delivery.text(), self.url, "POST", "v3", at)

    def cases(self, sign, good, other):
        yield "no time", good.without(self.timed)
        v1 = HubSpotSignature.get_signature(self.secret, good.text(), "v1")
        yield "version 1 beside nothing", replace(good, headers={"x-hubspot-signature": v1})


class Discord(Library):
    """The secret of the source is the public key; the provider's private one is derived from a text here."""

    signature, timed = "x-signature-ed25519", "x-signature-timestamp"

    def event(self, event_id, data):
        return dump({"id": event_id, "type": 2, "data": data}, event_id), [event_id]

    def private_key(self):
        # Another public key than ours belongs to another application: its private key is another one, too.
        seeds = [b"the seed of an ed25519 key, 32 b", b"another seed of ed25519, 32 byte"]
        keys = [SigningKey(seed) for seed in seeds]
        return next(key for key in keys if key.verify_key.encode().hex() == self.secret)

    def sign(self, body, event_id, at):
        signature = self.private_key().sign(str(at).encode() + body).signature.hex()
        return Delivery({self.timed: str(at), self.signature: signature}, body)

    def accepts(self, delivery):
        signature, at = (delivery.headers[name] for name in (self.signature, self.timed))
        return discord_interactions.verify_key(delivery.body, signature, at, self.secret)


LIBRARIES = {
    "adyen": Adyen_,
    "adyen-platform": AdyenPlatform,
    "bigcommerce": BigCommerce,
    "discord": Discord,
    "hubspot": HubSpot,
    "mollie": Mollie,
    "paddle": Paddle,
    "slack": Slack,
    "square": Square,
    "standard-webhooks": StandardWebhooks,
    "stripe": Stripe,
    "svix": Svix,
    "twilio": Twilio,
    "twilio-json": TwilioJson,
    "twilio-shared": TwilioShared,
}
