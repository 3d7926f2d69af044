"""Pages travel compressed, of a length that tells nothing of what is in them."""

import gzip

import pytest
from django.test import Client

from tests import factories as f

pytestmark = pytest.mark.django_db


def test_a_page_is_compressed_for_who_takes_it_and_never_twice_of_one_length(responder: Client) -> None:
    f.incident()
    plain = responder.get("/")
    packed = [responder.get("/", headers={"Accept-Encoding": "gzip"}) for _ in range(8)]

    assert "Content-Encoding" not in plain.headers
    assert {answer["Content-Encoding"] for answer in packed} == {"gzip"}
    assert b"customers_incremental_flow" in gzip.decompress(packed[0].content)
    assert all(len(answer.content) < len(plain.content) / 2 for answer in packed)
    assert len({len(answer.content) for answer in packed}) > 1
