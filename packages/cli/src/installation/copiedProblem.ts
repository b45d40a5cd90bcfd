import type { StoreCopied } from "@kiln/core"
import { type CommandFailed, failed } from "../CommandFailed.ts"
import { describeDatabase } from "../database/DatabasePlace.ts"
import type { Settings } from "../Settings.ts"

/** Instructions for the operator of a copy, for messages. */
export const adoptionAdvice =
  "To use the original instead, correct DATABASE_URL or KILN_DATA_DIR. To continue with this copy, stop every process on the original, " +
  "then run kiln adopt --moved if the original was not used after this copy was made (jobs continue), " +
  "or kiln adopt --restored if it was, or may have been (unfinished live jobs are canceled, because it may have run and charged them)"

/** Explains why records that are a copy cannot be used. */
export const copiedProblem = (settings: Settings, { found, recorded }: StoreCopied): CommandFailed =>
  failed(
    `${describeDatabase(settings.database)} is a copy, or was moved by copying: it was last used in ${recorded}, and is now in ${found}. ` +
      `No job is run, charged or deleted here, because the original may still be in use. ${adoptionAdvice}`,
  )
