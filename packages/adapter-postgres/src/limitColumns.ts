import type { Generated } from "kysely"
import type { SpendOwner } from "@kiln/core/domain"

/** Columns of limits and schedules. */

export interface Schedules {
  name: string
  version: number
  next_at: number | null
  /** A JSON text. */
  document: string
}

export interface RateBuckets {
  bucket: string
  /** A JSON text. */
  state: string
  full_at: number
}

export interface SpendCaps {
  owner: SpendOwner
  currency: string
  day: string | null
  month: string | null
  turns: Generated<number>
}

export interface SpendingEntries {
  owner: SpendOwner
  entry: string
  currency: string
  amount: string
  charged_at: number | null
}
