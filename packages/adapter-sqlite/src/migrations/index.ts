import type { Migration } from "@kiln/core/ports"
import { limits } from "./0003Limits.ts"
import { initial } from "./0001Initial.ts"

/**
 * In order; each is applied once. Migrations only add to the schema, because processes of the previous version run beside the new
 * one during a rollout. A released migration never changes.
 */
export const migrations: ReadonlyArray<Migration> = [initial, limits]
