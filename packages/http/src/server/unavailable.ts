import type { BlobUnavailable, StoreUnavailable } from "@kiln/core/domain"
import { Refusal } from "./Refusal.ts"

/** A store or the blobs are out of reach; the log says which and why, the client only that it may try again. */
export const storeUnavailable = (cause: StoreUnavailable | BlobUnavailable): Refusal =>
  new Refusal({ code: "service_unavailable", cause })
