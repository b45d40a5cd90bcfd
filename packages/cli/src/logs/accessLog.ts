import * as Effect from "effect/Effect"
import { type AnsweredRequest, knownMethod } from "@kiln/http"

/** The path, if its variable part is an identifier. Anything else may be a key that was pasted into the wrong place. */
const shownPath = (route: string, path: string): string => {
  const named = route.split("/")
  return path
    .split("/")
    .map((segment, index) => (/^[a-z]{3}_[0-9a-z]{26}$/.test(segment) ? segment : named[index]))
    .join("/")
}

/** The access log's line for a request. The path of a request without a route may be anything, so it is left out. */
const entryOf = ({ durationMs, method, path, route, ...answered }: AnsweredRequest) => ({
  requestId: answered.requestId,
  projectId: answered.projectId,
  keyId: answered.keyId,
  jobId: answered.jobId,
  method: knownMethod(method),
  ...(route !== undefined && { route, path: shownPath(route, path) }),
  status: answered.status,
  code: answered.code,
  durationMs: Math.round(durationMs * 1_000) / 1_000,
  receivedBytes: answered.receivedBytes,
  sentBytes: answered.sentBytes,
  remoteAddress: answered.remoteAddress,
})

/** Returns the function that logs requests. */
export const makeAccessLog: Effect.Effect<(answered: AnsweredRequest) => void> = Effect.map(
  Effect.context(),
  (context) => {
    const run = Effect.runForkWith(context)
    return (answered) => void run(Effect.logInfo("request", entryOf(answered)))
  },
)
