import { existsSync, readdirSync } from "node:fs"
import { dirname } from "node:path"
import * as Effect from "effect/Effect"
import { type CommandFailed, failed } from "../CommandFailed.ts"
import { Init } from "../openStores.ts"
import { type DatabasePlace, describeDatabase, type SqlitePlace } from "./DatabasePlace.ts"
import { storeMaintenance } from "./storeMaintenance.ts"

/** A new volume holds a directory for recovered files. */
const isEmpty = (directory: string): boolean =>
  existsSync(directory) && readdirSync(directory).every((name) => name === "lost+found")

const noFile = ({ path }: SqlitePlace): CommandFailed => {
  const directory = dirname(path)
  return failed(
    `there is no database ${path}${existsSync(directory) ? "" : ", and no such directory"}: ` +
      "set KILN_DATA_DIR to the directory of the installation; to begin a new one there, run kiln serve or add --init",
  )
}

const noSchema = (place: DatabasePlace): CommandFailed =>
  failed(
    `there is no kiln installation in ${describeDatabase(place)}: ` +
      `set ${place._tag === "Sqlite" ? "KILN_DATA_DIR to the directory" : "DATABASE_URL to the database"} of the installation; ` +
      "to begin a new one there, run kiln migrate or kiln serve",
  )

/** Whether there is no installation yet in a place where a command may begin one. */
const isFree = (place: DatabasePlace): boolean =>
  place._tag === "Postgres" || (!existsSync(place.path) && isEmpty(dirname(place.path)))

/**
 * Fails if there is no installation in the database. Only `serve`, `migrate`, and a command with `--init`, begin one anywhere: in a
 * wrong place, a command would otherwise answer from an empty database, and leave it there. `begin`: the command writes settings or
 * keys, and may begin one in an empty directory or in Postgres, unless this check fails: a command that can only fail creates nothing.
 */
export const requireDatabase = (place: DatabasePlace, begin?: Effect.Effect<void, CommandFailed>) =>
  Effect.gen(function* () {
    if (yield* Init) return yield* begin ?? Effect.void
    const exists = place._tag === "Postgres" || existsSync(place.path)
    const { migrationStatus } = yield* storeMaintenance(place)
    if (exists && (yield* migrationStatus).applied.length > 0) return
    if (begin !== undefined && isFree(place)) return yield* begin
    return yield* place._tag === "Sqlite" && !exists ? noFile(place) : noSchema(place)
  })
