import { Context, Effect, Exit, Layer, Scope } from "effect"
import { JobStore, KeyDirectory, SecretStore, Switchboard, UploadStore, WakeUp } from "@kiln/core/ports"
import { type PostgresOptions, PostgresStores } from "../../../src/index.ts"

/** The stores of one process. */
export interface OpenStores extends AsyncDisposable {
  readonly jobs: JobStore["Service"]
  readonly uploads: UploadStore["Service"]
  readonly keys: KeyDirectory["Service"]
  readonly board: Switchboard["Service"]
  readonly secrets: SecretStore["Service"]
  readonly wakeUp: WakeUp["Service"]
  readonly close: () => Promise<void>
}

/** Opens stores as a process does; rejects where they cannot be opened. */
export const openStores = async (options: PostgresOptions): Promise<OpenStores> => {
  const scope = Scope.makeUnsafe()
  const close = () => Effect.runPromise(Scope.close(scope, Exit.void))
  try {
    const context = await Effect.runPromise(
      Layer.buildWithScope(PostgresStores.layer({ notifications: false, ...options }), scope),
    )
    return {
      jobs: Context.get(context, JobStore),
      uploads: Context.get(context, UploadStore),
      keys: Context.get(context, KeyDirectory),
      board: Context.get(context, Switchboard),
      secrets: Context.get(context, SecretStore),
      wakeUp: Context.get(context, WakeUp),
      close,
      [Symbol.asyncDispose]: close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** What a verb came to: its answer, or the tag of what it failed with. A defect rejects. */
export const outcomeOf = <A, E extends { readonly _tag: string }>(verb: Effect.Effect<A, E>): Promise<A | E["_tag"]> =>
  verb.pipe(
    Effect.catch((error) => Effect.succeed(error._tag)),
    Effect.runPromise,
  )

/** The same, and how many milliseconds it took. */
export const timed = async <A>(work: () => Promise<A>): Promise<{ readonly outcome: A; readonly tookMs: number }> => {
  const startedAt = performance.now()
  const outcome = await work()
  return { outcome, tookMs: performance.now() - startedAt }
}

/** The tags of a batch's outcomes, or what it failed with. */
export const tags = (outcome: string | ReadonlyArray<{ readonly _tag: string }>): string | ReadonlyArray<string> =>
  typeof outcome === "string" ? outcome : outcome.map(({ _tag }) => _tag)

export const must = <A>(value: A | undefined): A => {
  if (value === undefined) throw new Error("there must be one")
  return value
}
