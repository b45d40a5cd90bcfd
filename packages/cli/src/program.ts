import type * as Effect from "effect/Effect"
import type { briefCommands } from "./commands/brief.ts"
import type { upkeepCommands } from "./commands/upkeep.ts"
import { runCommands } from "./runCommands.ts"

const brief =
  <Name extends keyof typeof briefCommands>(name: Name) =>
  async () =>
    (await import("./commands/brief.ts")).briefCommands[name]

const upkeep =
  <Name extends keyof typeof upkeepCommands>(name: Name) =>
  async () =>
    (await import("./commands/upkeep.ts")).upkeepCommands[name]

/** The commands in the order of the help. Commands that need different modules are loaded apart. */
export const allCommands = {
  serve: async () => (await import("./commands/serve.ts")).serveCommand,
  try: async () => (await import("./commands/try.ts")).tryCommand,
  top: async () => (await import("./commands/top.ts")).topCommand,
  project: brief("project"),
  key: brief("key"),
  token: brief("token"),
  job: brief("job"),
  queue: brief("queue"),
  schedule: brief("schedule"),
  delivery: brief("delivery"),
  switch: brief("switch"),
  price: brief("price"),
  billing: brief("billing"),
  audit: brief("audit"),
  retention: brief("retention"),
  blobs: upkeep("blobs"),
  "signing-key": brief("signing-key"),
  config: brief("config"),
  migrate: brief("migrate"),
  doctor: upkeep("doctor"),
  backup: upkeep("backup"),
  restore: upkeep("restore"),
  adopt: upkeep("adopt"),
  copy: upkeep("copy"),
} as const

/** Runs one command line. Returns its exit code: 0, 1 if the command failed, 2 if it was used incorrectly. */
export const runKiln = (args: ReadonlyArray<string>): Effect.Effect<number> => runCommands(args, allCommands)
