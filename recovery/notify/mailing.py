"""A message as mail, through the SMTP server of the settings: plain text, one recipient, one deep link."""

import smtplib
from email.errors import MessageError
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.mail import EmailMessage
from django.core.mail.message import BadHeaderError
from django.core.validators import validate_email

from recovery.errors import WrongUse
from recovery.notify.posting import NotDelivered


def is_mail_configured() -> bool:
    """Does this instance have a mail server and a sender?"""
    return bool(settings.EMAIL_HOST and settings.DEFAULT_FROM_EMAIL)


def check_address(address: str) -> str:
    """One plain mail address. Raises WrongUse."""
    try:
        validate_email(address)
    except ValidationError:
        raise WrongUse(
            "A mail channel has one address, name@host; for several people give a list's."
        ) from None
    return address


def send_mail(*, to: str, uid: str, title: str, text: str) -> None:
    """Hand it to the mail server. Every try has the same Message-ID, by which mail programs drop a double.

    Raises NotDelivered; `again` is false when the server refuses the recipient for good (5xx).
    """
    if not is_mail_configured():
        raise NotDelivered("Mail is not configured: set REPRISE_MAIL_HOST and REPRISE_MAIL_FROM.")
    host = urlsplit(settings.REPRISE_PUBLIC_URL).hostname or "localhost"
    headers = {"Message-ID": f"<{uid}@{host}>", "Auto-Submitted": "auto-generated", "X-Reprise-Message": uid}
    try:
        EmailMessage(f"[Reprise] {title}", text, to=[check_address(to)], headers=headers).send()
    except (BadHeaderError, MessageError, WrongUse) as error:
        raise NotDelivered(f"The mail cannot be written ({type(error).__name__}).", again=False) from None
    except smtplib.SMTPRecipientsRefused as error:
        codes = sorted({code for code, _ in error.recipients.values()})
        raise NotDelivered(
            f"The mail server refuses the recipient ({', '.join(map(str, codes))}).", again=min(codes) < 500
        ) from None
    except smtplib.SMTPAuthenticationError:
        raise NotDelivered("The mail server does not accept REPRISE_MAIL_USER and its password.") from None
    except smtplib.SMTPResponseException as error:
        raise NotDelivered(f"The mail server answers with {error.smtp_code}.") from None
    except (smtplib.SMTPException, OSError) as error:
        raise NotDelivered(f"The mail server cannot be spoken to ({type(error).__name__}).") from None
