"""Questions that only code on this side may answer: the console asks, a fork answers (`recovery.server.questions`)."""

from django.http import HttpRequest, StreamingHttpResponse

from recovery.server.environments import refuse_question
from recovery.server.http import sent_body
from recovery.server.instance import current_instance
from recovery.server.problems import ApiProblem, invalid_request
from recovery.server.questions import MOST_SECONDS, AskedQuestion, NoRunner, TooManyQuestions
from recovery.server.reach import refuse_paths_beyond


def ask_question(request: HttpRequest) -> StreamingHttpResponse:
    """POST /x-reprise/questions: one question about a pipeline's code or tables, answered while the caller waits.

    Blanks come until the answer is there: `{"answer": {…}}`, or `{"error": code, "sentence"}`. Whoever hangs up ends
    the question.
    """
    body, instance = sent_body(request), current_instance()
    question, about, seconds = body.get("question"), body.get("request"), int(body.get("seconds") or 0)
    if not question or about is None or not 1 <= seconds <= MOST_SECONDS:
        raise invalid_request(f"A question has question, request and seconds (1 to {MOST_SECONDS}).")
    refuse_question(body.get("environment") or "", instance.environments)
    refuse_paths_beyond(about, instance.place_of_data())
    asked = AskedQuestion(question, about, seconds, instance.connect_to(body.get("spark") or ""))
    try:
        answering = instance.questions.ask(
            asked, gone=request.META.get("waitress.client_disconnected") or bool
        )
    except TooManyQuestions:
        text = "As many questions as this server answers at once are under way; ask again in a moment."
        raise ApiProblem(429, "REQUEST_LIMIT_EXCEEDED", text) from None
    except NoRunner as error:
        raise ApiProblem(500, "INTERNAL_ERROR", str(error)) from error
    return StreamingHttpResponse(answering, content_type="application/json")
