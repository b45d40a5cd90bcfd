import type { AnyRace } from "../support/Race.ts"
import { cancelAndComplete } from "./cancellation.ts"
import { claims } from "./claims.ts"
import {
  beatAndComplete,
  completeAndErase,
  completeAndTakeover,
  completeAndWait,
  eraseAndTakeover,
  failAndTakeover,
  releaseAndTakeover,
} from "./completion.ts"
import { createAndCreate, createAndExpire, oneUploadTwoJobs, queueCap } from "./creations.ts"
import { switchOffAndRun } from "./gate.ts"
import { eraseAndErase, expireAndComplete, sweepAndCommit, sweepAndSweep } from "./sweeps.ts"
import { putAndLeave, putAndPut, putAndTakeover } from "./transfers.ts"

export const races: ReadonlyArray<AnyRace> = [
  completeAndErase,
  completeAndTakeover,
  eraseAndTakeover,
  failAndTakeover,
  beatAndComplete,
  releaseAndTakeover,
  completeAndWait,
  cancelAndComplete,
  claims,
  createAndCreate,
  oneUploadTwoJobs,
  queueCap,
  createAndExpire,
  putAndPut,
  putAndTakeover,
  putAndLeave,
  sweepAndCommit,
  expireAndComplete,
  sweepAndSweep,
  eraseAndErase,
  switchOffAndRun,
]
