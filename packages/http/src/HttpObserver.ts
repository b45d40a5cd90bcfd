import * as Context from "effect/Context"
import type { RefusalCode } from "@kiln/client/api"
import type { JobId, KeyId, ProjectId } from "@kiln/core/domain"

/** A request with its response, without anything secret: no query, no header, no part of a body. */
export interface AnsweredRequest {
  readonly requestId: string
  /** As sent; it may be any token. */
  readonly method: string
  /** The path of the matched route, with placeholders; `undefined` without one. */
  readonly route: string | undefined
  /** The path as sent, without the query. */
  readonly path: string
  readonly status: number
  /** The error's code; `undefined` for a success, and for a response that is not kiln's own error. */
  readonly code: RefusalCode | undefined
  /** Milliseconds until the response was ready. A file is sent after that; a received one is included. */
  readonly durationMs: number
  readonly receivedBytes: number
  /** Length of the response's body; `undefined` if it is not known in advance. */
  readonly sentBytes: number | undefined
  /** The client's address; behind trusted proxies, the one that they report. */
  readonly remoteAddress: string | undefined
  /** The caller, once its key was verified. */
  readonly keyId: KeyId | undefined
  readonly projectId: ProjectId | undefined
  /** The job that the request created or names. */
  readonly jobId: JobId | undefined
}

/** Observes requests, for metrics and access logs. It is called for every request, so it must be quick, and must not throw. */
export interface HttpObserver {
  /** A request has begun. `answered` follows. */
  readonly began: () => void
  readonly answered: (answered: AnsweredRequest) => void
}

/** The observer of this process; nothing is measured without one. */
export const HttpObserver = Context.Reference<HttpObserver | undefined>("@kiln/http/HttpObserver", {
  defaultValue: () => undefined,
})
