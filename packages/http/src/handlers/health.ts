import * as Effect from "effect/Effect"
import type { Readiness } from "../Health.ts"
import { jsonReply } from "../server/Reply.ts"
import type { Handler } from "../server/Router.ts"

/** Reports that the process is alive. Ignores its dependencies, because a restart would not fix them. */
export const healthz: Handler = () => Effect.succeed(jsonReply(200, { status: "ok" }))

/** Reports whether requests should be sent to this process now. */
export const readyz =
  (readiness: Readiness["Service"]): Handler =>
  () =>
    Effect.map(readiness.report, (report) =>
      report.status === "ready" ? jsonReply(200, report) : jsonReply(503, report, { "retry-after": "5" }),
    )
