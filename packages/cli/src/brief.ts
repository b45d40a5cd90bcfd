// The program with the commands that only read or change records. It is bundled apart, in a few files, and the launcher starts it for them.
import { briefCommands } from "./commands/brief.ts"
import { runCommands } from "./runCommands.ts"
import { runProcess } from "./runProcess.ts"

const loaded = Object.fromEntries(
  Object.entries(briefCommands).map(([name, command]) => [name, () => Promise.resolve(command)]),
)

runProcess((args) => runCommands(args, loaded))
