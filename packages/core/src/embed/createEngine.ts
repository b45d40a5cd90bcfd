import type { BuiltInKind } from "./builtIn.ts"
import type { EmbeddedEngine } from "./EmbeddedEngine.ts"
import type { EngineOptions } from "./EngineOptions.ts"
// From its own file: the declarations of this door name nothing of Effect.
import type { Kind } from "../kinds/KindTypes.ts"
import { openEmbedded } from "./openEmbedded.ts"

/**
 * Puts an engine together, opens its stores and starts its worker. Rejects when a store cannot be opened. Stop it in the end,
 * or let `await using` do so: a process that ends without it leaves its running jobs to others, when their leases are over.
 */
export const createEngine = <
  K extends Kind = BuiltInKind,
  Transaction = never,
  SyncTransaction = never,
  const Working extends boolean = true,
>(
  options: EngineOptions<K, Transaction, SyncTransaction, Working>,
): Promise<EmbeddedEngine<K, Transaction, SyncTransaction>> => openEmbedded(options)
