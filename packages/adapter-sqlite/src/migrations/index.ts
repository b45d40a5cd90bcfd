import type { Migration } from "@kiln/core/ports"
import { initial } from "./0001Initial.ts"
import { waits } from "./0005Waits.ts"

/**
 * In order; each is applied once. Migrations only add to the schema, because processes of the previous version run beside the new
 * one during a rollout. A released migration never changes.
 */
export const migrations: ReadonlyArray<Migration> = [initial, waits]
