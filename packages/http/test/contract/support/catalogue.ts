/** The error catalogue of the contract: what each code means on the wire. */
export const catalogue: Readonly<
  Record<string, { readonly status: number; readonly type: string | ReadonlyArray<string> }>
> = {
  invalid_json: { status: 400, type: "invalid_request_error" },
  invalid_request: { status: 400, type: "invalid_request_error" },
  idempotency_key_missing: { status: 400, type: "idempotency_error" },
  idempotency_key_invalid: { status: 400, type: "idempotency_error" },
  upload_not_found: { status: 400, type: "invalid_request_error" },
  missing_api_key: { status: 401, type: "authentication_error" },
  invalid_api_key: { status: 401, type: "authentication_error" },
  spend_cap_reached: { status: 402, type: "permission_error" },
  insufficient_scope: { status: 403, type: "permission_error" },
  live_not_active: { status: 403, type: "permission_error" },
  upload_url_invalid: { status: 403, type: "permission_error" },
  file_url_invalid: { status: 403, type: "permission_error" },
  not_found: { status: 404, type: "not_found_error" },
  job_not_found: { status: 404, type: "not_found_error" },
  method_not_allowed: { status: 405, type: "invalid_request_error" },
  upload_timeout: { status: 408, type: "conflict_error" },
  job_processing: { status: 409, type: "conflict_error" },
  upload_not_ready: { status: 409, type: "conflict_error" },
  upload_already_used: { status: 409, type: "conflict_error" },
  upload_in_progress: { status: 409, type: "conflict_error" },
  upload_already_completed: { status: 409, type: "conflict_error" },
  upload_expired: { status: 410, type: "invalid_request_error" },
  file_gone: { status: 410, type: "not_found_error" },
  body_too_large: { status: 413, type: "invalid_request_error" },
  file_too_large: { status: 413, type: "invalid_request_error" },
  unsupported_content_type: { status: 415, type: "invalid_request_error" },
  range_not_satisfiable: { status: 416, type: "invalid_request_error" },
  idempotency_key_reused: { status: 422, type: "idempotency_error" },
  empty_file: { status: 422, type: "invalid_request_error" },
  audio_format_mismatch: { status: 422, type: "invalid_request_error" },
  rate_limited: { status: 429, type: "rate_limit_error" },
  queue_full: { status: 429, type: "rate_limit_error" },
  uploads_full: { status: 429, type: "rate_limit_error" },
  storage_full: { status: 429, type: "rate_limit_error" },
  internal_error: { status: 500, type: "api_error" },
  service_unavailable: { status: 503, type: "api_error" },
}

/** Responses to malformed HTTP: outside of the catalog's table, listed in section 2.3. */
export const parserErrors: Readonly<Record<string, number>> = { malformed_request: 400, headers_too_large: 431 }
