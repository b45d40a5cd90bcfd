import { existsSync, readdirSync } from "node:fs"
import { join } from "node:path"

/** Marks a directory as one of backups. Without it, a backup removes nothing there, and with it, no installation stores files there. */
export const backupMarker = "kiln-backup.json"

const generationName = /^\d{8}T\d{9}Z$/

/** Returns whether a backup gave this name to a generation. */
export const isGenerationName = (name: string): boolean => generationName.test(name)

export const generationsOf = (directory: string): string => join(directory, "generations")

/** Returns whether a directory is one of backups. A version of kiln that set no marker may have made it. */
export const holdsBackups = (directory: string): boolean =>
  existsSync(join(directory, backupMarker)) ||
  (existsSync(generationsOf(directory)) && readdirSync(generationsOf(directory)).some(isGenerationName))
