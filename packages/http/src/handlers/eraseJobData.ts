import * as Effect from "effect/Effect"
import type { JobFamily } from "@kiln/client"
import type { KeyScope } from "@kiln/core/domain"
import { asStep } from "../server/Ready.ts"
import type { Refusal } from "../server/Refusal.ts"
import { noContent, type Reply } from "../server/Reply.ts"
import type { Handler } from "../server/Router.ts"
import type { HandlerContext } from "./HandlerContext.ts"
import { findJob } from "./pollJob.ts"
import { refusalFor } from "./refusalFor.ts"

/** Deletes the retained data of a finished job. Repeating the request returns the same response. */
export const eraseJobData = (context: HandlerContext, family: JobFamily, keyScope: KeyScope): Handler =>
  Effect.fnUntraced(function* (exchange, id, clock): Effect.fn.Return<Reply, Refusal> {
    const grant = yield* asStep(context.admit(exchange, keyScope, "delete", clock))
    yield* findJob(context, grant, { family, id }, () => undefined)
    yield* Effect.mapError(context.engine.eraseJobData(grant, id), (error) => refusalFor(error))
    return noContent
  })
