import * as Effect from "effect/Effect"
import type { JobFamily } from "@kiln/client"
import type { IdempotencyKeyReused } from "@kiln/core"
import type { Grant, Job } from "@kiln/core/domain"
import { type Exchange, jsonReply, Refusal, type Reply, whenReady } from "../server/Exchange.ts"
import { readJsonObject } from "../server/body.ts"
import type { Handler } from "../server/app.ts"
import type { HandlerContext } from "./HandlerContext.ts"
import type { OfferedKind } from "./offerKinds.ts"
import { refusalFor } from "./refusalFor.ts"

/** Creates a job of one kind. A repeated request gets the job created by the first. Few steps and no generator, like `pollJob`. */
export const createJob = (context: HandlerContext, { family, kind, names, route }: OfferedKind): Handler => {
  const placement = { requireLiveWorker: context.requireLiveWorker }
  const accept = (exchange: Exchange, grant: Grant, body: Record<string, unknown>): Effect.Effect<Reply, Refusal> => {
    const parsed = parseIdempotencyKey(exchange.header("idempotency-key"))
    if (!parsed.ok) return Effect.fail(new Refusal({ code: `idempotency_key_${parsed.reason}` }))
    return Effect.matchEffect(context.engine.createJob(grant, kind, names.toRequest(body), parsed.key, placement), {
      onFailure: (error) => {
        if (error._tag === "InvalidRequest") return Effect.fail(names.refuse(error.errors))
        if (error._tag === "IdempotencyKeyReused") return Effect.fail(keyReused(context, error))
        return Effect.fail(refusalFor(error, error._tag.startsWith("Upload") ? route.upload : undefined))
      },
      onSuccess: ({ job, replayed }) => {
        exchange.createdJobId = job.id
        const location = jobUrl(context, family, job.id)
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

/** Returns the URL at which a job is polled. */
export const jobUrl = ({ publicUrl }: Pick<HandlerContext, "publicUrl">, { poll }: JobFamily, jobId: string): string =>
  publicUrl() + poll.slice(0, -":id".length) + jobId

/** Points to the job that has the key: a caller that lost the response to its first request finds it there. */
const keyReused = (context: HandlerContext, { code, jobId, kind }: IdempotencyKeyReused): Refusal => {
  const family = context.offers.get(kind)?.family
  return new Refusal({ code, ...(family && { headers: { location: jobUrl(context, family, jobId) } }) })
}

/** Returns the body of a new job. A replay returns the same, whatever the job's state. */
const createdBody = (job: Job) => ({
  id: job.id,
  object: "job",
  type: job.kind,
  mode: job.mode,
  status: "queued",
})

type ParsedIdempotencyKey =
  | { readonly ok: true; readonly key: string }
  | { readonly ok: false; readonly reason: "missing" | "invalid" }

const VISIBLE_ASCII = /^[\x21-\x7e]{1,255}$/
const QUOTED = /^"(.*)"$/

/**
 * Parses the values of the `Idempotency-Key` headers, one per header line, trimmed, as an HTTP parser returns them. A key
 * has 1 to 255 visible ASCII characters without spaces. One pair of outer quotes is not part of the key: the draft standard
 * specifies a quoted string, but most clients omit the quotes. An empty or repeated header is invalid.
 */
export const parseIdempotencyKey = (values: ReadonlyArray<string> | undefined): ParsedIdempotencyKey => {
  const [value, second] = values ?? []
  if (value === undefined) return { ok: false, reason: "missing" }
  const key = QUOTED.exec(value)?.[1] ?? value
  return second === undefined && VISIBLE_ASCII.test(key) ? { ok: true, key } : { ok: false, reason: "invalid" }
}
