import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"

/** Calls that change data on the disk. */
export const writing =
  "write,writev,pwrite64,pwritev,fsync,fdatasync,ftruncate,fallocate,rename,renameat,renameat2,unlink,unlinkat,mkdir,mkdirat,rmdir"

/** Die at the `nth` call of this name that any one thread makes. */
export interface Kill {
  readonly name: string
  readonly nth: number
}

/** The environment of a process whose file system calls are to be counted: its pool has one thread, or the counts would be split. */
const countable = (extra: Readonly<Record<string, string>> = {}): NodeJS.ProcessEnv => ({
  PATH: process.env["PATH"],
  UV_THREADPOOL_SIZE: "1",
  UV_USE_IO_URING: "0",
  NODE_COMPILE_CACHE: join(import.meta.dirname, "../../../node_modules/.cache/kiln-test"),
  ...extra,
})

const ended = async (child: ChildProcess, limitMs: number): Promise<number | NodeJS.Signals | null> => {
  const timer = setTimeout(() => child.kill("SIGKILL"), limitMs)
  const [code, signal] = await once(child, "close")
  clearTimeout(timer)
  return code ?? signal
}

/** Runs a script under strace and returns its output and how it ended. */
export const runTraced = async (
  script: string,
  args: ReadonlyArray<string>,
  options: { readonly trace: string; readonly kill?: Kill; readonly env?: Readonly<Record<string, string>> },
) => {
  const { env, kill, trace } = options
  const inject = kill === undefined ? [] : ["-e", `inject=${kill.name}:signal=SIGKILL:when=${kill.nth}`]
  const child = spawn(
    "strace",
    ["-f", "-y", "-s", "0", "-o", trace, "-e", `trace=${writing}`, ...inject, "--"].concat(
      process.execPath,
      "--conditions=@kiln/source",
      script,
      args,
    ),
    { env: countable(env), stdio: ["ignore", "pipe", "pipe"] },
  )
  let stdout = ""
  let stderr = ""
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text))
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text))
  const exit = await ended(child, 60_000)
  return { stdout, stderr, exit }
}
