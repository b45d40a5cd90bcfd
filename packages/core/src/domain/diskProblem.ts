/** The place of a file operation that failed, for `describeDiskProblem`. */
export interface DiskPlace {
  /** The file or directory, as an operator knows it. */
  readonly path: string
  /** Free bytes of its file system; `undefined` if that cannot be read. */
  readonly freeBytes: number | undefined
}

const units = ["B", "KB", "MB", "GB", "TB"] as const

/** Formats a number of bytes with one decimal at most: `0 B`, `1.5 MB`. */
const sizeText = (bytes: number): string => {
  let value = bytes
  let unit = 0
  for (; value >= 1_000 && unit < units.length - 1; unit += 1) value /= 1_000
  return `${unit === 0 ? value : Number(value.toFixed(1))} ${units[unit]}`
}

const leaves =
  "Deleting the data of jobs still works: kiln retention run, kiln job erase-data, DELETE requests and eraseData"

/**
 * Explains an error of the operating system that concerns a disk, and how to fix it, by its code: `ENOSPC`, `EDQUOT`, `EROFS` or
 * `EIO`. Returns `undefined` for any other code.
 */
export const describeDiskProblem = (code: string | undefined, { freeBytes, path }: DiskPlace): string | undefined => {
  switch (code) {
    case "ENOSPC":
      return `the disk of ${path} is full${freeBytes === undefined ? "" : ` (${sizeText(freeBytes)} free)`}: delete other files there, or enlarge it. ${leaves}`
    case "EDQUOT":
      return `the disk quota for ${path} is used up: delete other files there, or raise the quota. ${leaves}`
    case "EROFS":
      return `the file system of ${path} is read-only: see the system's log (dmesg) for errors of the disk, and mount it writable`
    case "EIO":
      return `the disk of ${path} reports input/output errors: see the system's log (dmesg), replace the disk, and restore the latest backup if data is lost`
    default:
      return undefined
  }
}

/** An error of a disk, whose message names the place and the remedy. The cause is the original error. */
export class DiskProblem extends Error {
  override readonly name = "DiskProblem"
  /** The code of the original error, of the system or of SQLite. */
  readonly code: string | undefined
  /** Whether the disk or a quota is used up. */
  readonly isFull: boolean

  constructor(
    message: string,
    { cause, code, isFull }: { readonly cause?: unknown; readonly code?: string | undefined; readonly isFull: boolean },
  ) {
    super(message, { cause })
    this.code = code
    this.isFull = isFull
  }
}
