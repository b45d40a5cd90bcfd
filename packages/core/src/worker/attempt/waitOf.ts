import type { AttemptWait } from "../../domain/index.ts"
import type { JobKind } from "../../kinds/JobKind.ts"
import { ProviderPaused } from "../../providers/circuitBreaker.ts"
import { ProviderBroken } from "../../providers/index.ts"
import type { AttemptEnd } from "./AttemptEnd.ts"

type Waiting = Extract<AttemptEnd, { readonly _tag: "Unavailable" | "Postponed" }>

const wait = (reason: AttemptWait["reason"], subject: string | null = null, cause: string | null = null) => ({
  reason,
  subject,
  cause,
})

/** Returns why an attempt of this kind ended to wait, from its end and what it threw. */
export const waitOf = (end: Waiting, error: unknown, { providers }: Pick<JobKind, "providers">): AttemptWait => {
  const names = [...new Set(providers.flat())].join(", ")
  const ofProvider = (cause: string) =>
    wait("provider", error instanceof ProviderPaused ? error.provider : names === "" ? null : names, cause)
  if (end._tag === "Postponed") return ofProvider("postponed")
  switch (end.what) {
    case "ProviderPaused":
      return ofProvider("paused")
    case "ProviderBroken":
      return ofProvider(error instanceof ProviderBroken ? error.reason : "failing")
    case "StoreUnavailable":
      return wait("store")
    case "BlobUnavailable":
      return wait("blobs")
  }
}
