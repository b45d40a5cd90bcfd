import type { CallOptions } from "./ClientOptions.ts"
import type { JobRoute } from "./routes/jobRoute.ts"
import type { Answer } from "./sendRequest.ts"

/** The fields of a route that the operations use. */
export type ClientRoute = Pick<JobRoute, "path" | "noun" | "methods"> & {
  readonly kind: { readonly name: string }
  readonly family: { readonly noun: string; readonly poll: string }
  readonly upload?: string | undefined
}

/** Sends a request to one of the routes; `place` is its name in messages. */
export type Ask = (
  place: string,
  method: string,
  path: string,
  options: CallOptions,
  request?: {
    readonly id?: string
    readonly fields?: object
    readonly idempotencyKey?: string
    readonly headers?: Readonly<Record<string, string>>
    readonly read?: (response: Response) => Promise<unknown>
  },
) => Promise<Answer>
