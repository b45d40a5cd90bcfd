import * as Effect from "effect/Effect"
import type { Grant, Job } from "@kiln/core/domain"
import type { Exchange } from "../server/Exchange.ts"
import { readJsonObject } from "../server/jsonBody.ts"
import { whenReady } from "../server/Ready.ts"
import { Refusal } from "../server/Refusal.ts"
import { jsonReply, type Reply } from "../server/Reply.ts"
import type { Handler } from "../server/Router.ts"
import { parseIdempotencyKey } from "../wire/requestHeaders.ts"
import type { HandlerContext } from "./HandlerContext.ts"
import { pollingPath } from "./jobBodies.ts"
import type { OfferedKind } from "./offerKinds.ts"
import { refusalFor } from "./refusalFor.ts"

/** Creates a job of one kind. A repeated request gets the job created by the first. Few steps and no generator, like `pollJob`. */
export const createJob = (context: HandlerContext, { family, kind, names, route }: OfferedKind): Handler => {
  const placement = { requireLiveWorker: context.requireLiveWorker }
  const accept = (exchange: Exchange, grant: Grant, body: Record<string, unknown>): Effect.Effect<Reply, Refusal> => {
    const parsed = parseIdempotencyKey(exchange.header("idempotency-key"))
    if (!parsed.ok) return Effect.fail(new Refusal({ code: `idempotency_key_${parsed.reason}` }))
    return Effect.matchEffect(context.engine.createJob(grant, kind, names.toRequest(body), parsed.key, placement), {
      onFailure: (error) =>
        Effect.fail(
          error._tag === "InvalidRequest"
            ? names.refuse(error.errors)
            : refusalFor(error, error._tag.startsWith("Upload") ? route.upload : undefined),
        ),
      onSuccess: ({ job, replayed }) => {
        exchange.createdJobId = job.id
        const location = context.publicUrl() + pollingPath(family, job.id)
        const headers: Record<string, string> = { location, "retry-after": "2" }
        if (replayed) headers["idempotency-replayed"] = "true"
        return Effect.succeed(jsonReply(202, createdBody(job), headers))
      },
    })
  }
  return (exchange, _, clock) =>
    whenReady(context.admit(exchange, kind.keyScope, "create", clock), (grant) =>
      Effect.flatMap(readJsonObject(exchange), (body) =>
        whenReady(context.confirm(exchange, clock), () => accept(exchange, grant, body)),
      ),
    )
}

/** Returns the body of a new job. A replay returns the same, whatever the job's state. */
const createdBody = (job: Job) => ({
  id: job.id,
  object: "job",
  type: job.kind,
  mode: job.mode,
  status: "queued",
})
