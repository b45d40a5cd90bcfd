import { existsSync, renameSync } from "node:fs"
import { Effect } from "effect"
import { causeMessage, type CommandFailed, failed } from "../CommandFailed.ts"

/** Where a database goes when it was copied. */
const retiredPath = (path: string): string => `${path}.copied`

/** Whatever stands there must not be lost. */
export const refuseRetiredBefore = (path: string): Effect.Effect<void, CommandFailed> =>
  Effect.suspend(() =>
    existsSync(retiredPath(path))
      ? Effect.fail(
          failed(
            existsSync(path)
              ? `${retiredPath(path)} exists, which is where ${path} would go: move it away first`
              : `there is no database ${path} any more: it was copied before, and is now ${retiredPath(path)}`,
          ),
        )
      : Effect.void,
  )

/**
 * Puts the database that was copied out of the way. Whoever starts on it by mistake would be the same installation as
 * the copy, and would remove the blobs of every job the copy has accepted since.
 */
export const retireSource = (path: string): Effect.Effect<string, CommandFailed> =>
  Effect.try({
    try: () => {
      renameSync(path, retiredPath(path))
      return retiredPath(path)
    },
    catch: (cause) =>
      failed(
        `all records were copied, but ${path} cannot be renamed (${causeMessage(cause)}): move it away, and never start kiln on it again`,
      ),
  })
