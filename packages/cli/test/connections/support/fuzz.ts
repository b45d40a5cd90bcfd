import { spawn } from "node:child_process"
import { once } from "node:events"
import { join } from "node:path"
import { attack, type AttackReport } from "./attack.ts"
import type { ProbeReport } from "./ProbeReport.ts"
import { type Environment, startTarget, type TargetName } from "./Target.ts"

export interface FuzzOptions {
  readonly target: TargetName
  readonly connections: number
  readonly seed: number
  /** One shape alone, by its name. */
  readonly only?: string
  /** Variables that the target gets. */
  readonly environment?: Environment
}

export interface FuzzReport extends AttackReport {
  readonly seconds: number
  readonly peakMegabytes: number | undefined
  readonly probe: ProbeReport
  /** Reports that the target ended, or an error that it did not catch. */
  readonly failure: string | undefined
}

/** Attacks a separate process while a client in another process watches its health. */
export const fuzz = async ({
  connections,
  environment,
  only,
  seed,
  target: name,
}: FuzzOptions): Promise<FuzzReport> => {
  await using target = await startTarget(name, environment)
  const watching = await startProbe(`http://127.0.0.1:${target.port}${target.health}`, target.pid)
  const begunAt = performance.now()
  const attacked = await attack({
    port: target.port,
    connections,
    seed,
    weapons: target.weapons,
    isOver: () => target.failure() !== undefined,
    ...(only !== undefined && { only }),
  })
  const seconds = Math.round((performance.now() - begunAt) / 1_000)
  const probe = await watching.stop()
  // The connections opened last may fail last.
  await new Promise((resolve) => setTimeout(resolve, 200))
  return { ...attacked, seconds, peakMegabytes: target.peakMegabytes(), probe, failure: target.failure() }
}

const startProbe = async (url: string, pid: number) => {
  const child = spawn(process.execPath, [join(import.meta.dirname, "probe.ts"), url, String(pid)], {
    env: { PATH: process.env["PATH"] },
    stdio: ["pipe", "pipe", "pipe"],
  })
  let said = ""
  child.stdout.setEncoding("utf8").on("data", (text: string) => (said += text))
  const ended = once(child, "close")
  await once(child.stderr, "data")
  return {
    stop: async (): Promise<ProbeReport> => {
      child.stdin.end()
      await ended
      return JSON.parse(said) as ProbeReport
    },
  }
}
