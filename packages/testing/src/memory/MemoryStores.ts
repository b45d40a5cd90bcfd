import { Context, Effect, Layer } from "effect"
import { JobStore, KeyDirectory, SecretStore, Switchboard, UploadStore } from "@kiln/core/ports"
import { makeMemoryJobStore } from "./MemoryJobStore.ts"
import { makeMemoryKeyDirectory } from "./MemoryKeyDirectory.ts"
import { makeMemorySecretStore } from "./MemorySecretStore.ts"
import { emptyState } from "./MemoryState.ts"
import { makeMemorySwitchboard } from "./MemorySwitchboard.ts"
import { makeMemoryUploadStore } from "./MemoryUploadStore.ts"

/**
 * All record stores in one process's memory: the reference model that every other adapter is
 * compared with. Nothing survives the process. Store time is the Effect `Clock`.
 */
export const MemoryStores = {
  /** Each build is a fresh, empty store; the five ports of one build share it. */
  layer: Layer.effectContext(
    Effect.sync(() => {
      const state = emptyState()
      return Context.make(JobStore, makeMemoryJobStore(state)).pipe(
        Context.add(UploadStore, makeMemoryUploadStore(state)),
        Context.add(KeyDirectory, makeMemoryKeyDirectory(state)),
        Context.add(Switchboard, makeMemorySwitchboard(state)),
        Context.add(SecretStore, makeMemorySecretStore(state)),
      )
    }),
  ),
}
