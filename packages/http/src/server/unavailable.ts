import type { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import { Refusal } from "./Refusal.ts"

/** Returns the error for an unavailable store. Only the log names the store and the reason; the client is told to retry. */
export const storeUnavailable = (cause: StoreUnavailable | BlobUnavailable): Refusal =>
  new Refusal({ code: "service_unavailable", cause })
