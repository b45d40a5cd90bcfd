import { spawn } from "node:child_process"
import { once } from "node:events"

/** The public URL of the examples' servers, which differs from where they listen. */
export const publicUrl = "https://app.example"

export interface RunningServer extends AsyncDisposable {
  /** Where it listens. */
  readonly url: string
  /** Returns its output from this text to the end of the line. */
  readonly printed: (before: string) => string
  /** Stops it and waits for its exit. Ports and secrets in its output are replaced. */
  readonly end: (signal: NodeJS.Signals) => Promise<{
    readonly exitCode: number | null
    readonly stdout: string
    readonly stderr: string
  }>
}

/** Starts an example in a separate process on a free port, and waits until it has printed this text. */
export const startServer = async (main: string, ready: string): Promise<RunningServer> => {
  const child = spawn(process.execPath, ["--conditions=@kiln/source", main], {
    env: { PATH: process.env["PATH"], PORT: "0", PUBLIC_URL: publicUrl },
    stdio: ["ignore", "pipe", "pipe"],
    // Shorter than the test's timeout, which would leave the process running.
    timeout: 90_000,
    killSignal: "SIGKILL",
  })
  const output = { stdout: "", stderr: "" }
  const closed = once(child, "close")
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output.stderr += text))
  const started = new Promise<void>((resolve) => {
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output.stdout += text
      if (output.stdout.includes(ready)) resolve()
    })
  })
  const failed = closed.then(() => Promise.reject(new Error(`the server exited before it was ready: ${output.stderr}`)))
  await Promise.race([started, failed])
  failed.catch(() => undefined)
  const printed = (before: string): string =>
    output.stdout
      .split("\n")
      .find((line) => line.startsWith(before))!
      .slice(before.length)
  return {
    url: printed("listens at "),
    printed,
    end: async (signal) => {
      child.kill(signal)
      const [exitCode] = await closed
      const stdout = output.stdout.replace(/127\.0\.0\.1:\d+/, "127.0.0.1:PORT").replace(/kiln_test_\w+/, "KEY")
      return { exitCode, stdout, stderr: output.stderr }
    },
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL")
      await closed
    },
  }
}
