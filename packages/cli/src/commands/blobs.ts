import * as Command from "effect/cli/Command"
import { blobsClaimCommand } from "./blobsClaim.ts"
import { blobsCopyCommand } from "./blobsCopy.ts"
import { blobsSweepCommand } from "./blobsSweep.ts"

export const blobsCommand = Command.make("blobs").pipe(
  Command.withDescription("Maintain the blob store"),
  Command.withSubcommands([blobsCopyCommand, blobsClaimCommand, blobsSweepCommand]),
)
