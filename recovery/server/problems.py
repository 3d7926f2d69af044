"""Failures that the API answers with: status, error code, message, in the service's own shape."""

from typing import Any


class ApiProblem(Exception):
    """An expected failure of one request. `message` is shown to people as it is."""

    def __init__(self, status: int, error_code: str, message: str, **metadata: str) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code
        self.message = message
        self.metadata = metadata

    def body(self) -> dict[str, Any]:
        """`{"error_code", "message", "details"}`; details carry an ErrorInfo when there is more to say."""
        body: dict[str, Any] = {"error_code": self.error_code, "message": self.message}
        if self.metadata:
            info = {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": self.error_code,
                "domain": "pipelines.databricks.com",
                "metadata": self.metadata,
            }
            body["details"] = [info]
        return body


def invalid_request(message: str) -> ApiProblem:
    """400: the request itself is wrong."""
    return ApiProblem(400, "INVALID_PARAMETER_VALUE", message)


def missing_pipeline(pipeline_id: str) -> ApiProblem:
    """404 in the service's wording."""
    return ApiProblem(404, "RESOURCE_DOES_NOT_EXIST", f"The specified pipeline {pipeline_id} was not found.")


def missing_update(update_id: str) -> ApiProblem:
    """404 for an update that this pipeline never had."""
    return ApiProblem(404, "RESOURCE_DOES_NOT_EXIST", f"The specified update {update_id} was not found.")


def active_update(pipeline_id: str, update_id: str) -> ApiProblem:
    """409: the running update goes on; its id is in the message and in the ErrorInfo."""
    message = f"An active update '{update_id}' already exists for pipeline '{pipeline_id}'."
    return ApiProblem(409, "RESOURCE_CONFLICT", message, update_id=update_id, pipeline_id=pipeline_id)
