import { spawn } from "node:child_process"
import { once } from "node:events"

/** strace at a running process, until it is disposed: the process goes on as if nothing had been. */
export const attach = async (pid: number, args: ReadonlyArray<string>): Promise<AsyncDisposable> => {
  const child = spawn("strace", ["-f", "-p", String(pid), ...args], { stdio: ["ignore", "ignore", "pipe"] })
  let said = ""
  child.stderr.setEncoding("utf8")
  for await (const text of child.stderr.iterator({ destroyOnReturn: false })) {
    said += String(text)
    if (/attached/.test(said)) break
  }
  if (!/attached/.test(said)) throw new Error(`strace does not attach: ${said}`)
  child.stderr.resume()
  return {
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = once(child, "close")
      child.kill("SIGINT")
      await ended
    },
  }
}
