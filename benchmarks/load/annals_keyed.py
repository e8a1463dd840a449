"""Load generator for Annals whose publishers send idempotency keys, made by the official client."""

from annals_client.sans_io import new_uuid7
from benchmarks.load import generator
from benchmarks.load.annals_retrying import RetryingAnnals


class KeyedAnnals(RetryingAnnals):
    """Annals at `address`."""

    def _post(self, body: bytes, request_id: str) -> bytes:
        head, _, content = super()._post(body, request_id).partition(b"\r\n\r\n")
        return b"%b\r\nIdempotency-Key: %b\r\n\r\n%b" % (head, new_uuid7().encode(), content)


if __name__ == "__main__":
    generator.main(KeyedAnnals)
