import { createHmac } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { type OptionNames, requireFlag, requireNumber, requireOptions } from "@kiln/core/domain"
import { abandon } from "./boundedResponse.ts"
import { isPublicAddress } from "./isPublicAddress.ts"
import { assertFetchable, makePublicFetch, type PublicFetchOptions } from "./publicFetch.ts"

/** The longest time of a timer, about 24 days. */
const longestTimerMs = 2 ** 31 - 1

/** The answer to a webhook is not 2xx. The log shows its name, which has the status. */
class WebhookRefused extends Error {
  override readonly name: string
  readonly status: number

  constructor(status: number) {
    super(`the webhook was answered with ${status}`)
    this.name = `WebhookRefused (status ${status})`
    this.status = status
  }
}

/** A finished job, as far as every webhook needs it. */
export interface WebhookJob {
  readonly id: string
  readonly status: "done" | "failed"
  readonly finishedAt: Date
}

export interface WebhookOptions<Job extends WebhookJob = WebhookJob> {
  /** An http or https URL without user name. */
  readonly url: string | URL
  /**
   * The key of the signatures: `whsec_` and 24 to 64 bytes in base64. With several, each request has a signature by each of them, so
   * that the receiver can move from one to the next.
   */
  readonly secret: string | ReadonlyArray<string>
  /** Milliseconds until a request is aborted, default 15,000. */
  readonly timeoutMs?: number
  /** Returns the `data` of a request, or a promise of it; by default the job, as `get` returns it. */
  readonly data?: (job: Job) => object | Promise<object>
  /** `true` allows loopback, private and link-local addresses: for tests, and for receivers in a trusted network. */
  readonly allowPrivateAddresses?: boolean
  /** Resolves the host name. Default: `dns.lookup`. */
  readonly lookup?: PublicFetchOptions["lookup"]
}

const optionNames: OptionNames<WebhookOptions> = {
  url: true,
  secret: true,
  timeoutMs: true,
  data: true,
  allowPrivateAddresses: true,
  lookup: true,
}

/**
 * Creates an `onFinished` that posts each finished job to a URL, as [Standard Webhooks](https://www.standardwebhooks.com) defines it:
 * the body is `{ type: "job.completed" | "job.failed", timestamp, data }`, and the headers are `webhook-id` (the job's id, the same
 * in each attempt), `webhook-timestamp` and `webhook-signature`.
 *
 * Rejects unless the answer is 2xx in time, so that the engine tries again. Connects only to public addresses, whatever the name
 * resolves to, and follows no redirects: both reject with `FetchRefused`. Throws `TypeError` for invalid options.
 */
export const webhook = <Job extends WebhookJob = WebhookJob>(
  options: WebhookOptions<Job>,
): ((finished: { readonly job: Job; readonly signal: AbortSignal }) => Promise<void>) => {
  requireOptions("webhook()", options, optionNames)
  const { allowPrivateAddresses = false, data = (job: Job) => job, lookup, timeoutMs = 15_000 } = options
  requireNumber("timeoutMs", timeoutMs, { least: 1, most: longestTimerMs, whole: true })
  requireFlag("allowPrivateAddresses", allowPrivateAddresses)
  const url = urlOf(options.url)
  const keys = [options.secret].flat().map(keyOf)
  if (keys.length === 0) throw new TypeError("secret must not be an empty list")
  const send = makePublicFetch({
    isAllowed: allowPrivateAddresses ? () => true : isPublicAddress,
    lookup,
    maxRedirects: 0,
  })
  return async ({ job, signal }) => {
    const type = job.status === "done" ? "job.completed" : "job.failed"
    const body = JSON.stringify({ type, timestamp: job.finishedAt.toISOString(), data: await data(job) })
    const timestamp = String(Math.floor(Effect.runSync(Clock.currentTimeMillis) / 1_000))
    const signatures = keys.map(
      (key) => `v1,${createHmac("sha256", key).update(`${job.id}.${timestamp}.${body}`).digest("base64")}`,
    )
    const request = new Request(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "user-agent": "kiln-webhook",
        "webhook-id": job.id,
        "webhook-timestamp": timestamp,
        "webhook-signature": signatures.join(" "),
      },
      body,
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    })
    const response = await send(request)
    abandon(response)
    if (!response.ok) throw new WebhookRefused(response.status)
  }
}

const urlOf = (given: string | URL): URL => {
  const url = URL.parse(String(given))
  if (url === null) throw new TypeError("url must be an http or https URL")
  try {
    assertFetchable(url)
  } catch {
    throw new TypeError("url must be an http or https URL without user name")
  }
  return url
}

const keyOf = (secret: unknown): Buffer => {
  const [, base64 = ""] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(String(secret)) ?? []
  const key = Buffer.from(base64, "base64")
  // The message must not contain the secret.
  if (key.length < 24 || key.length > 64) throw new TypeError('secret must be "whsec_" and 24 to 64 bytes in base64')
  return key
}
