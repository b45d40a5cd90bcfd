import type { Migration } from "@kiln/core/ports"
import { initial } from "./0001Initial.ts"
import { digests } from "./0002Digests.ts"
import { limits } from "./0003Limits.ts"
import { retention } from "./0004Retention.ts"
import { waits } from "./0005Waits.ts"
import { laneLocks } from "./0006LaneLocks.ts"
import { createJobsAtOnce } from "./0007CreateJobs.ts"
import { plans } from "./0008Plans.ts"
import { takeJobs } from "./0009TakeJobs.ts"
import { acceptingJobs } from "./0010AcceptJobs.ts"
import { operators } from "./0011Operators.ts"
import { signals } from "./0012Signals.ts"
import { failedSteps } from "./0013FailedSteps.ts"
import { prerequisites } from "./0014Prerequisites.ts"
import { chunks } from "./0015Chunks.ts"
import { priorities } from "./0016Priorities.ts"
import { replacements } from "./0017Replacements.ts"
import { keysInSnapshots } from "./0018KeysInSnapshots.ts"
import { lanesInTurn } from "./0019LanesInTurn.ts"

/**
 * In order; each is applied once. Migrations only add to the schema, because processes of the previous version run beside the new
 * one during a rollout. A migration on the main branch never changes: its digest is in every schema that has it, and in
 * `test/migrationDigests.test.ts`. Each later change of the schema is a migration of its own.
 */
export const migrations: ReadonlyArray<Migration> = [
  initial,
  digests,
  limits,
  retention,
  waits,
  laneLocks,
  createJobsAtOnce,
  plans,
  takeJobs,
  acceptingJobs,
  operators,
  signals,
  failedSteps,
  prerequisites,
  chunks,
  priorities,
  replacements,
  keysInSnapshots,
  lanesInTurn,
  // One per line.
]
