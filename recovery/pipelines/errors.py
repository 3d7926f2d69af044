"""How a Pipelines API can say no, beyond being unreachable."""

from recovery.errors import Refused, RepriseError, Unreachable


class ApiDenied(RepriseError):
    """The API does not accept our token, or its owner may not do this."""

    code = "api_denied"
    exit_code = 2


class ApiBusy(Unreachable):
    """The API is there and wants no further question for so many `seconds` (0: it does not say)."""

    def __init__(self, sentence: str, *, seconds: float) -> None:
        super().__init__(sentence)
        self.seconds = seconds


class ApiError(RepriseError):
    """The API refused the request, or its answer makes no sense. `status` and `error_code` are its own."""

    code = "api_error"

    def __init__(self, sentence: str, *, status: int = 0, error_code: str = "") -> None:
        super().__init__(sentence)
        self.status = status
        self.error_code = error_code


class ActiveUpdate(Refused):
    """Another update is active, so none was started. `update_id` is "" when no one said which."""

    code = "active_update"

    def __init__(self, sentence: str, *, update_id: str) -> None:
        super().__init__(sentence)
        self.update_id = update_id


def is_passing(failure: RepriseError) -> bool:
    """Did the other side say that it cannot answer now (429, 5xx), so that asking again later may help?"""
    return isinstance(failure, ApiError) and (failure.status == 429 or failure.status >= 500)
