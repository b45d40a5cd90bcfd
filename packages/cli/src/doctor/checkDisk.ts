import { existsSync } from "node:fs"
import { stat, statfs } from "node:fs/promises"
import { dirname } from "node:path"
import * as Effect from "effect/Effect"
import { causeMessage } from "../CommandFailed.ts"
import type { Settings } from "../Settings.ts"
import { localDirectories } from "../settings/localDirectories.ts"
import { bytesText, type Check, graded, type GradedFinding, skipped, warning } from "./Check.ts"

const name = "disk"
const gigabyte = 1_073_741_824

/** The room of one file system. */
export interface Room {
  readonly directory: string
  readonly bytes: number
  readonly freeBytes: number
  /** Files that the file system can hold; 0 if it has no limit. */
  readonly files: number
  readonly freeFiles: number
}

/** Returns what is scarce. A twentieth of a large disk is still a lot, so shares have an upper bound. */
export const judgeRoom = ({
  bytes,
  directory,
  files,
  freeBytes,
  freeFiles,
}: Room): ReadonlyArray<GradedFinding & { readonly remedy: string }> => {
  const remedy = `free or add space there: kiln retention run removes what is past its retention, also on a full disk (--dry-run shows what), and a shorter KILN_DATA_RETENTION, once every kiln serve is restarted with it, makes more of it due`
  const isFull = freeBytes < Math.max(gigabyte / 4, Math.min(0.01 * bytes, 2 * gigabyte))
  const isScarce = freeBytes < Math.max(gigabyte, Math.min(0.05 * bytes, 20 * gigabyte))
  return [
    ...(isScarce
      ? [
          {
            message: `${directory}: ${bytesText(freeBytes)} of ${bytesText(bytes)} are free`,
            remedy,
            isProblem: isFull,
            details: { directory, free_bytes: String(freeBytes) },
          },
        ]
      : []),
    ...(files > 0 && freeFiles < 0.05 * files
      ? [
          {
            message: `${directory}: ${freeFiles} of ${files} files (inodes) are free`,
            remedy,
            isProblem: freeFiles < 0.01 * files,
            details: { directory, free_files: String(freeFiles) },
          },
        ]
      : []),
  ]
}

/** The nearest directory that exists: an installation that has not begun has none of its own. */
const existing = (path: string): string => (existsSync(path) || dirname(path) === path ? path : existing(dirname(path)))

const readRoom = async (directory: string): Promise<Room & { readonly device: number }> => {
  const at = existing(directory)
  const [{ bavail, blocks, bsize, ffree, files }, { dev }] = await Promise.all([statfs(at), stat(at)])
  return { directory, bytes: blocks * bsize, freeBytes: bavail * bsize, files, freeFiles: ffree, device: dev }
}

/** Checks the space on the disks of the database and the files. */
export const checkDisk = (settings: Settings): Effect.Effect<ReadonlyArray<Check>> =>
  Effect.tryPromise(async () => {
    const directories = localDirectories(settings)
    if (directories.length === 0) return [skipped(name, "records and files are stored elsewhere")]
    const rooms = await Promise.all(directories.map(readRoom))
    const apart = rooms.filter(({ device }, index) => rooms.findIndex((room) => room.device === device) === index)
    return [
      graded(name, apart.flatMap(judgeRoom), {
        well: apart.map(({ directory, freeBytes }) => `${bytesText(freeBytes)} free in ${directory}`).join("; "),
        wrong: "a disk is almost full",
      }),
    ]
  }).pipe(
    Effect.catch(({ cause }) =>
      Effect.succeed([
        warning(name, {
          summary: `could not be read: ${causeMessage(cause)}`,
          remedy: "run kiln doctor as the user of the service, on its machine",
        }),
      ]),
    ),
  )
