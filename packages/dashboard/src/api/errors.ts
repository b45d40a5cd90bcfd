/** The errors of the operator's API: status, type and message of each code. */
export const adminErrors = {
  invalid_request: { status: 400, type: "invalid_request_error", message: "The request is invalid." },
  empty_filter: {
    status: 400,
    type: "invalid_request_error",
    message: "The selection is empty, and would match every job. Give job_ids or a filter.",
  },
  missing_token: {
    status: 401,
    type: "authentication_error",
    message: "Send a token as a bearer token. `kiln token create` makes one.",
  },
  invalid_token: {
    status: 401,
    type: "authentication_error",
    message: "The token is unknown, revoked or expired. `kiln token create` makes one.",
  },
  insufficient_role: { status: 403, type: "permission_error", message: "The caller lacks the role that this needs." },
  requests_hidden: {
    status: 403,
    type: "permission_error",
    message: "Requests are hidden from operators (settings.operatorSeesRequests, or KILN_OPERATOR_REQUESTS).",
  },
  cross_site: {
    status: 403,
    type: "permission_error",
    message: "Changes are accepted from this page's own origin only, as JSON.",
  },
  not_found: { status: 404, type: "not_found_error", message: "There is no such resource." },
  method_not_allowed: { status: 405, type: "invalid_request_error", message: "Use another method." },
  job_finished: { status: 409, type: "conflict_error", message: "The job has finished already." },
  job_not_waiting: { status: 409, type: "conflict_error", message: "The job runs, or waits for an event." },
  job_not_retryable: { status: 409, type: "conflict_error", message: "The job cannot be retried." },
  refused: { status: 409, type: "conflict_error", message: "The change was refused." },
  internal_error: {
    status: 500,
    type: "api_error",
    message: "An unexpected error occurred. The log has the request id.",
  },
  service_unavailable: { status: 503, type: "api_error", message: "The store cannot be reached. Try again." },
} as const

export type AdminErrorCode = keyof typeof adminErrors
