import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import { JobNotFound } from "../domain/Errors.ts"
import { requireNumber, requireOptions } from "../domain/index.ts"
import { readPriority } from "../domain/Priority.ts"
import { EngineConfig } from "../engine/EngineConfig.ts"
import { installedKinds } from "../kinds/installedKinds.ts"
import { maxDelayMs } from "../engine/prepareJob.ts"
import type { AttemptContext, FollowUpOptions as EffectOptions } from "../kinds/AttemptContext.ts"
import { KindBug } from "../kinds/KindBug.ts"
import { fieldOf } from "../providers/checks.ts"
import { followUpOptions } from "./checkOptions.ts"
import { attachedMetadata, requireTags } from "./checkSubmitted.ts"
import { concat, iterated } from "./fileBodies.ts"
import type { AttemptEngine, FollowUpOptions } from "./AttemptTypes.ts"
import type { FileReference } from "./JobResult.ts"
import { fileIdOf, idOf, toJobResult } from "./toJobResult.ts"

/** What the engine of an attempt needs of it. */
export interface AttemptRuns {
  readonly attempt: AttemptContext<unknown>
  readonly context: Context.Context<never>
  readonly signal: () => AbortSignal
  /** Runs a part of the attempt. */
  readonly run: <A, E>(call: string, effect: Effect.Effect<A, E>, isKept?: boolean) => Promise<A>
}

/** Runs a part whose arguments may be wrong: a bug of the kind. */
const checked = <A, E>(effect: () => Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.suspend(() => {
    try {
      return effect()
    } catch (error) {
      return Effect.die(error instanceof TypeError ? new KindBug(error.message, { cause: error }) : error)
    }
  })

/** Returns the options, checked. */
const optionsFrom = (call: string, options: FollowUpOptions): EffectOptions => {
  requireOptions(`${call}()`, options, followUpOptions)
  const { delayMs, metadata, priority, tags } = options
  if (delayMs !== undefined) requireNumber("delayMs", delayMs, { least: 0, most: maxDelayMs })
  if (priority !== undefined) readPriority(priority)
  if (tags !== undefined) requireTags("tags", tags)
  return { ...options, ...(metadata !== undefined && { metadata: attachedMetadata(metadata) }) } as EffectOptions
}

// JavaScript code may pass anything for a kind.
const nameOf = (kind: unknown): string => (typeof kind === "string" ? kind : fieldOf(kind, "name")) as string

/** Returns the engine of an attempt as promises. */
export const promisedEngine = ({ attempt, context, run, signal }: AttemptRuns): AttemptEngine => {
  const { engine } = attempt
  const bytesOf = (file: FileReference): Stream.Stream<Uint8Array, unknown> => engine.readFile(fileIdOf(file))
  const submitBy =
    (verb: "submit" | "submitWith"): AttemptEngine["submit"] =>
    (step, kind, request, options = {}) =>
      run(
        `engine.${verb}(${JSON.stringify(step)})`,
        checked(() => {
          const submitted = engine[verb](step, nameOf(kind), request, optionsFrom(`engine.${verb}`, options))
          return Effect.map(submitted, (id) => ({ id, kind: nameOf(kind) }))
        }),
        true,
      )
  return {
    submit: submitBy("submit"),
    submitWith: submitBy("submitWith"),
    get: (job, kind) =>
      run(
        "engine.get()",
        checked(() =>
          Effect.flatMap(engine.get(idOf(job)), (found) => {
            if (kind !== undefined && found.kind !== nameOf(kind)) return Effect.fail(new JobNotFound())
            const settings = Context.get(context, EngineConfig)
            return Effect.map(installedKinds, (kinds) => toJobResult<never>(found, { kinds, settings }))
          }),
        ),
      ),
    readFile: (file) =>
      run(
        "engine.readFile()",
        checked(() =>
          Effect.map(Stream.runCollect(engine.readFile(fileIdOf(file))), (pieces) =>
            concat(
              pieces,
              pieces.reduce((sum, { length }) => sum + length, 0),
            ),
          ),
        ),
      ),
    streamFile: (file) =>
      iterated(
        async () => bytesOf(file),
        context,
        () => [signal()],
        "hang",
      ),
    signal: (job, name, value) =>
      run(
        "engine.signal()",
        checked(() => engine.signal(idOf(job), name, value)),
        true,
      ),
    cancel: (job) =>
      run(
        "engine.cancel()",
        checked(() => engine.cancel(idOf(job))),
        true,
      ),
  }
}
