import { spawnSync } from "node:child_process"
import { KilnProcess } from "@kiln/service-lab"

/** util-linux `script`: runs a shell command on a pseudo terminal and repeats on standard output what it says there. */
const script = ["script", "--quiet", "--return", "--flush", "/dev/null", "--command"]

/** Whether this machine has a program that gives a command a terminal. */
export const hasTerminal: boolean = /util-linux/.test(
  spawnSync("script", ["--version"], { encoding: "utf8" }).stdout ?? "",
)

/**
 * Starts `kiln` on a pseudo terminal, in a session of its own. Its output and its log are one there, with CR LF at the end of
 * each line. Killing it with SIGKILL takes the terminal away, as closing a window does.
 */
export const inTerminal = (args: ReadonlyArray<string>, environment: Readonly<Record<string, string>>): KilnProcess =>
  new KilnProcess(args, environment, { inside: script })

const childOf = (pid: number): number =>
  Number(spawnSync("ps", ["-o", "pid=", "--ppid", String(pid)], { encoding: "utf8" }).stdout.trim())

/** The process at the end of the line that begins with `script`: the service, below a shell or not. */
export const pidInTerminal = (terminal: KilnProcess): number => {
  let pid = terminal.pid
  for (let child = childOf(pid); child > 0; child = childOf(pid)) pid = child
  return pid
}
