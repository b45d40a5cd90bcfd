import { existsSync, statSync } from "node:fs"
import type { UpkeepProblem } from "@kiln/core/ports"
import type { SqliteDatabase } from "../SqliteDatabase.ts"

const megabyte = 1_048_576
/** The log is truncated to 64 MB after a burst, unless a reader prevents it. */
const mostLogBytes = 256 * megabyte
/** Less unused space than this is not worth a stop of the service. */
const leastFreeBytes = 64 * megabyte
/** Share of the file that may be unused. */
const mostFreeShare = 0.25

const megabytes = (bytes: number): string => `${Math.round(bytes / megabyte)} MB`

/** Finds space that is lost until an operator does something. */
export const findUpkeep = (connection: SqliteDatabase): ReadonlyArray<UpkeepProblem> => {
  const read = (name: string): number => Number(connection.pragma(name, { simple: true }))
  const [{ file: path = "" } = {}] = connection.pragma("database_list") as ReadonlyArray<{ readonly file?: string }>
  const bytes = read("page_count") * read("page_size")
  const freeBytes = read("freelist_count") * read("page_size")
  const log = `${path}-wal`
  const logBytes = existsSync(log) ? statSync(log).size : 0
  return [
    ...(read("auto_vacuum") === 0 && freeBytes > Math.max(leastFreeBytes, mostFreeShare * bytes)
      ? [
          {
            problem: `${megabytes(freeBytes)} of ${megabytes(bytes)} in ${path} are unused, and the file was not created by kiln, so they stay in it`,
            remedy: `stop every process that uses the file, then run sqlite3 ${path} "PRAGMA auto_vacuum = INCREMENTAL; VACUUM"`,
            isUrgent: false,
          },
        ]
      : []),
    ...(logBytes > mostLogBytes
      ? [
          {
            problem: `the write-ahead log ${log} has ${megabytes(logBytes)}: a program has kept a transaction open for a long time`,
            remedy: `find the program with lsof ${log}, and end its transaction`,
            isUrgent: false,
          },
        ]
      : []),
  ]
}
