/**
 * Why a guarded fetch gave nothing, although nothing was wrong with the network.
 *
 * - `url`: not http(s), or with a user name in it
 * - `address`: the name or the address is not one of the public internet
 * - `redirected`: a trusted origin answered with a redirect, which would carry the credentials away
 * - `redirects`: another one redirected too often, nowhere, or from https to http
 * - `too_large`: the body is longer than allowed
 */
export type FetchRefusal = "url" | "address" | "redirected" | "redirects" | "too_large"

/** What a guarded fetch rejects with when it refuses. The message names the reason and nothing of the request. */
export class FetchRefused extends Error {
  override readonly name = "FetchRefused"
  readonly reason: FetchRefusal

  constructor(reason: FetchRefusal) {
    super(`fetch refused: ${reason}`)
    this.reason = reason
  }
}
