import type { Migration } from "@kiln/core/ports"
import { initial } from "./0001Initial.ts"
import { digests } from "./0002Digests.ts"
import { limits } from "./0003Limits.ts"
import { retention } from "./0004Retention.ts"
import { waits } from "./0005Waits.ts"
import { operators } from "./0007Operators.ts"
import { signals } from "./0008Signals.ts"
import { failedSteps } from "./0009FailedSteps.ts"
import { prerequisites } from "./0010Prerequisites.ts"
import { chunks } from "./0011Chunks.ts"
import { priorities } from "./0012Priorities.ts"
import { replacements } from "./0013Replacements.ts"
import { reserved } from "./0014Reserved.ts"

/**
 * In order; each is applied once. Migrations only add to the schema, because processes of the previous version run beside the new
 * one during a rollout. A migration on the main branch never changes: its digest is in every database that has it, and in
 * `test/migrationDigests.test.ts`. Each later change of the schema is a migration of its own.
 */
export const migrations: ReadonlyArray<Migration> = [
  initial,
  digests,
  limits,
  retention,
  waits,
  operators,
  signals,
  failedSteps,
  prerequisites,
  chunks,
  priorities,
  replacements,
  reserved,
  // One per line.
]
