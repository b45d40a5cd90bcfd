import { existsSync, renameSync } from "node:fs"
import * as Effect from "effect/Effect"
import { causeMessage, type CommandFailed, failed } from "../CommandFailed.ts"

/** Returns the path to which a copied database is renamed. */
const retiredPath = (path: string): string => `${path}.copied`

/** Fails if that path exists, so that no file is overwritten. */
export const refuseRetiredBefore = (path: string): Effect.Effect<void, CommandFailed> =>
  Effect.suspend(() =>
    existsSync(retiredPath(path))
      ? Effect.fail(
          failed(
            existsSync(path)
              ? `${retiredPath(path)} exists, so ${path} cannot be renamed to it afterwards: move it away first`
              : `the database ${path} no longer exists: it was copied before, and is now ${retiredPath(path)}`,
          ),
        )
      : Effect.void,
  )

/**
 * Renames the copied database. A server that is started on it by mistake would count as the same installation as the copy,
 * and would remove the blobs of every job that the copy has accepted since.
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
