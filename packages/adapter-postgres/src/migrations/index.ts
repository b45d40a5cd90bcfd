import type { Migration } from "@kiln/core/ports"
import { initial } from "./0001Initial.ts"

/**
 * In order, each applied once. A migration only ever adds, because processes of the previous version run beside the new one
 * during a rollout. A released migration never changes.
 */
export const migrations: ReadonlyArray<Migration> = [initial]
