import { spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { fileURLToPath } from "node:url"
import { createInterface } from "node:readline"

type Program = "putOnce" | "putForever" | "putMany" | "removeOnce"

const commandOf = (program: Program, args: ReadonlyArray<string>): Array<string> => [
  process.execPath,
  "--conditions=@kiln/source",
  fileURLToPath(new URL(`./${program}.ts`, import.meta.url)),
  ...args,
]

/** Returns the line that the program printed, or `undefined` if it was killed. `wrapper` runs it: `strace`, `sh`, … */
export const runChild = (
  program: Program,
  args: ReadonlyArray<string>,
  wrapper: ReadonlyArray<string> = [],
): Promise<Record<string, unknown> | undefined> =>
  new Promise((resolve, reject) => {
    const [command = "", ...rest] = [...wrapper, ...commandOf(program, args)]
    const child = spawn(command, rest, { stdio: ["ignore", "pipe", "pipe"] })
    let [output, errors] = ["", ""]
    child.stdout.on("data", (chunk) => {
      output += chunk
    })
    child.stderr.on("data", (chunk) => {
      errors += chunk
    })
    child.on("error", reject)
    child.on("close", (code, signal) => {
      if (output !== "") resolve(JSON.parse(output))
      else if (signal === "SIGKILL" || code === 137) resolve(undefined)
      else reject(new Error(`${program} ended with ${code ?? signal}: ${errors}`))
    })
  })

/** Starts the program, waits for its first line, kills it. */
export const killAtFirstLine = async (program: Program, args: ReadonlyArray<string>): Promise<string> => {
  const [command = "", ...rest] = commandOf(program, args)
  const child = spawn(command, rest, { stdio: ["ignore", "pipe", "inherit"] })
  const closed = once(child, "close")
  const line = once(createInterface(child.stdout), "line").then(([text]) => String(text))
  const first = await Promise.race([line, closed.then(() => "ended before it printed anything")])
  child.kill("SIGKILL")
  await closed
  return first
}

/** Returns whether a tool exists and has the required permissions. */
export const canRun = (command: string, ...args: ReadonlyArray<string>): boolean =>
  spawnSync(command, args, { stdio: "ignore" }).status === 0
