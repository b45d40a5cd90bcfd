import { inProgramContext } from "../engine/programContext.ts"
import type { BuiltInKind } from "./jobKind.ts"
import type { EmbeddedEngine } from "./EmbeddedEngine.ts"
import type { EngineOptions } from "./EngineOptions.ts"
import type { StoreAdapter, SyncTransactionOf, TransactionOf } from "../ports/adapters.ts"
// Imported from its own file, because the declarations of this entry point contain no Effect types.
import type { Kind } from "../kinds/KindDefinition.ts"

/**
 * Creates an engine, opens its stores and starts its worker. Rejects if a store cannot be opened. Stop the engine at the end, or
 * use `await using`: otherwise its running jobs wait until their leases end before other workers take them.
 */
export const createEngine = async <
  K extends Kind = BuiltInKind,
  Store extends StoreAdapter = StoreAdapter,
  const Working extends boolean = true,
>(
  options: EngineOptions<K, Store, Working>,
): Promise<EmbeddedEngine<K, TransactionOf<Store>, SyncTransactionOf<Store>>> => {
  // Loaded here, because it takes several times as long to load as everything else: a program that only defines kinds,
  // or creates its engine on the first request, does not wait for it.
  const { openEmbedded } = await import("./openEmbedded.ts")
  // Created in a request, an engine must not keep what belongs to that.
  return inProgramContext(() => openEmbedded<K, TransactionOf<Store>, SyncTransactionOf<Store>, Working>(options))
}
