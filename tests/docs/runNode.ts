import { spawn } from "node:child_process"

export interface Ran {
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs Node to its end, or kills it after `timeoutMs`. `messages` are those sent with `process.send`. */
export const runNode = async (
  cwd: string,
  args: ReadonlyArray<string>,
  timeoutMs: number,
): Promise<Ran & { readonly messages: ReadonlyArray<unknown> }> => {
  const { NODE_OPTIONS: _, VITEST: __, ...env } = process.env
  const child = spawn(process.execPath, args, { cwd, env, stdio: ["ignore", "pipe", "pipe", "ipc"] })
  const messages: Array<unknown> = []
  let stdout = ""
  let stderr = ""
  child.stdout?.setEncoding("utf8").on("data", (chunk: string) => (stdout += chunk))
  child.stderr?.setEncoding("utf8").on("data", (chunk: string) => (stderr += chunk))
  child.on("message", (message) => messages.push(message))
  const overdue = setTimeout(() => {
    stderr += `still running after ${timeoutMs} ms`
    child.kill("SIGKILL")
  }, timeoutMs)
  const exitCode = await new Promise<number | null>((resolve, reject) => {
    child.on("error", reject)
    child.on("close", (code) => resolve(code))
  })
  clearTimeout(overdue)
  return { exitCode, stdout, stderr, messages }
}
