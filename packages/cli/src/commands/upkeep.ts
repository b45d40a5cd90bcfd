import * as Command from "effect/cli/Command"
import { adoptCommand } from "./adopt.ts"
import { backupCommand } from "./backup.ts"
import { blobsClaimCommand } from "./blobsClaim.ts"
import { blobsCopyCommand } from "./blobsCopy.ts"
import { blobsSweepCommand } from "./blobsSweep.ts"
import { copyCommand } from "./copy.ts"
import { doctorCommand } from "./doctor.ts"
import { restoreCommand } from "./restore.ts"

const blobsCommand = Command.make("blobs").pipe(
  Command.withDescription("Maintain the blob store"),
  Command.withSubcommands([blobsCopyCommand, blobsClaimCommand, blobsSweepCommand]),
)

/** Commands that check, back up, restore and move an installation. */
export const upkeepCommands = {
  blobs: blobsCommand,
  doctor: doctorCommand,
  backup: backupCommand,
  restore: restoreCommand,
  adopt: adoptCommand,
  copy: copyCommand,
} as const
