import { defaultEngineSettings } from "../engine/index.ts"
import { builtInKinds, type JobKind, type Kind } from "../kinds/index.ts"
import type { BuiltInKind } from "./BuiltInKind.ts"
import { keepContext } from "./embeddedContext.ts"
import type { EmbeddedEngine } from "./EmbeddedEngine.ts"
import type { EngineOptions } from "./EngineOptions.ts"
import { eventVerbs } from "./eventVerbs.ts"
import { fileVerbs } from "./fileVerbs.ts"
import { jobVerbs } from "./jobVerbs.ts"
import { operatorVerbs } from "./operations.ts"
import { providerSet } from "./providerSet.ts"
import { openEngine } from "./Running.ts"

/**
 * Puts an engine together, opens its stores and starts its worker. Rejects when a store cannot be opened. Stop it in the end,
 * or let `await using` do so: a process that ends without it leaves its running jobs to others, when their leases are over.
 */
export const createEngine = async <
  K extends Kind = BuiltInKind,
  Transaction = never,
  SyncTransaction = never,
  const Working extends boolean = true,
>(
  options: EngineOptions<K, Transaction, SyncTransaction, Working>,
): Promise<EmbeddedEngine<K, Transaction, SyncTransaction>> => {
  const { autoStart = true, blobs, log, probe, store, worker = true } = options
  const kinds = (options.kinds ?? builtInKinds()) as ReadonlyArray<JobKind>
  const given = "providers" in options ? options.providers : undefined
  const providers = { sandbox: providerSet(given?.sandbox), live: providerSet(given?.live) }
  const settings = { ...defaultEngineSettings, ...options.settings }
  const parts = { store, blobs, kinds, providers, settings, ...(probe && { probe }), ...(log !== undefined && { log }) }
  const running = await openEngine(parts, worker)
  const { start, stop } = running
  const defaultMode = given?.live !== undefined && given.sandbox === undefined ? "live" : "sandbox"
  const engine: EmbeddedEngine<K, Transaction, SyncTransaction> = {
    ...jobVerbs(running, defaultMode),
    ...fileVerbs(running, defaultMode),
    ...eventVerbs(running),
    operator: operatorVerbs(running),
    start,
    stop,
    [Symbol.asyncDispose]: () => stop(),
  }
  keepContext(engine, running.context)
  if (worker && autoStart) {
    await start().catch(async (error: unknown) => {
      await stop()
      throw error
    })
  }
  return engine
}
