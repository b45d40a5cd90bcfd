import { adoptCommand } from "./adopt.ts"
import { backupCommand } from "./backup.ts"
import { blobsCommand } from "./blobs.ts"
import { copyCommand } from "./copy.ts"
import { doctorCommand } from "./doctor.ts"
import { restoreCommand } from "./restore.ts"

/** Commands that check, back up, restore and move an installation. */
export const upkeepCommands = {
  blobs: blobsCommand,
  doctor: doctorCommand,
  backup: backupCommand,
  restore: restoreCommand,
  adopt: adoptCommand,
  copy: copyCommand,
} as const
