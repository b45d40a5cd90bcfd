/**
 * Why a guarded fetch refused a request or its response.
 *
 * - `url`: not http(s), or contains a user name
 * - `address`: the host does not resolve to public addresses only
 * - `redirected`: a trusted origin responded with a redirect, which would leak the credentials
 * - `redirects`: another origin redirected too often, without a target, or from https to http
 * - `too_large`: the body is longer than allowed
 */
export type FetchRefusal = "url" | "address" | "redirected" | "redirects" | "too_large"

/** The error of a guarded fetch that refuses. The message contains the reason and nothing from the request. */
export class FetchRefused extends Error {
  override readonly name = "FetchRefused"
  readonly reason: FetchRefusal

  constructor(reason: FetchRefusal) {
    super(`fetch refused: ${reason}`)
    this.reason = reason
  }
}
