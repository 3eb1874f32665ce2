import pytest

from joulie_api.checked_texts import redacted, redacted_values


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:secret@host:80/a", "http://***@host:80/a"),
        ("https://secret@host", "https://***@host"),
        ("https://host/a?token=secret", "https://host/a?***"),
        ("https://host/{node}?b=secret#c", "https://host/{node}?***#c"),
        ("http://user:secret@[::1", "http://***@[::1"),
        ("http://[::1?token=secret", "http://[::1?***"),
        ("http://host:80/a@b", "http://host:80/a@b"),
        ("a@b.example", "a@b.example"),
        ("what?", "what?"),
    ],
)
def test_user_password_and_query_of_a_url_are_hidden(text, shown):
    assert redacted(text) == shown


def test_texts_within_settings_are_redacted_and_other_values_stay():
    settings = {"a": ["http://u:secret@h", 3], "b": {"c": "http://u:secret@h", "d": None}, "e": True}
    assert redacted_values(settings) == {"a": ["http://***@h", 3], "b": {"c": "http://***@h", "d": None}, "e": True}
