// Runs speech jobs of the sandbox with SQLite and files, or writes the same files and rows without kiln. Prints the rate.
import { randomUUID } from "node:crypto"
import { mkdirSync } from "node:fs"
import { open, rename } from "node:fs/promises"
import { join } from "node:path"
import type * as Blobs from "@kiln/adapter-blobs"
import type * as Sqlite from "@kiln/adapter-sqlite"
import type * as Core from "@kiln/core"
import type * as Sandbox from "@kiln/provider-sandbox"
import type * as Testing from "@kiln/testing"
import { loadBuilt } from "../engines/kiln.ts"
import { rawSqlite } from "../engines/rawSqlite.ts"
import { peakMb } from "./peakMb.ts"

export interface FilesOptions {
  readonly kiln: string
  readonly directory: string
  readonly jobs: number
  /** Whether kiln does it. */
  readonly withKiln: boolean
}

const { directory, jobs, kiln, withKiln } = JSON.parse(process.argv[2] ?? "") as FilesOptions
const { builtInKinds, createEngine } = await loadBuilt<typeof Core>(kiln, "core")
const { sandboxProviders } = await loadBuilt<typeof Sandbox>(kiln, "provider-sandbox")
const request = { input: "Hello from the bench." }

const measureKiln = async (): Promise<number> => {
  const { sqliteStore } = await loadBuilt<typeof Sqlite>(kiln, "adapter-sqlite")
  const { fileBlobs } = await loadBuilt<typeof Blobs>(kiln, "adapter-blobs")
  const engine = await createEngine({
    store: sqliteStore({ path: join(directory, "kiln.db") }),
    blobs: fileBlobs({ directory: join(directory, "blobs") }),
    kinds: builtInKinds(),
    providers: { sandbox: sandboxProviders() },
    autoStart: false,
    settings: { concurrency: 100, queueCap: 0, limits: { perProject: 0 } },
  })
  const submitted = Array.from({ length: jobs }, () => engine.submit("speech_synthesis", request))
  await Promise.all(submitted)
  const from = performance.now()
  await engine.start()
  const isBusy = async (): Promise<boolean> => {
    const tallies = await engine.operator.count()
    if (tallies.some(({ count, status }) => status === "failed" && count > 0)) throw new Error("a job failed")
    return tallies.some(({ count, status }) => status !== "done" && count > 0)
  }
  while (await isBusy()) await new Promise((resolve) => setTimeout(resolve, 5))
  return jobs / ((performance.now() - from) / 1_000)
}

/** The audio that the sandbox makes of the request. */
const audio = async (): Promise<Uint8Array> => {
  const { memoryBlobs, memoryStore } = await loadBuilt<typeof Testing>(kiln, "testing")
  const engine = await createEngine({
    store: memoryStore(),
    blobs: memoryBlobs(),
    kinds: builtInKinds(),
    providers: { sandbox: sandboxProviders() },
  })
  const done = await engine.submitAndWait("speech_synthesis", request)
  if (done.status !== "done" || done.output === null) throw new Error(`the job is ${done.status}`)
  const bytes = await engine.readFile(done.output.audio)
  await engine.stop()
  return bytes
}

/** Writes a file, syncs it, renames it and syncs its directory: what makes a file durable. */
const writeDurably = async (bytes: Uint8Array): Promise<void> => {
  const own = join(directory, "raw", randomUUID())
  mkdirSync(own, { recursive: true })
  const path = join(own, "audio")
  const handle = await open(`${path}.part`, "wx")
  await handle.write(bytes)
  await handle.sync()
  await handle.close()
  await rename(`${path}.part`, path)
  const parent = await open(own, "r")
  await parent.sync()
  await parent.close()
}

const measureRaw = async (): Promise<number> => {
  const bytes = await audio()
  const rows = await rawSqlite.open({ place: join(directory, "raw.db"), kiln, onStart: () => {} })
  let left = jobs
  const from = performance.now()
  const work = async (): Promise<void> => {
    while (left > 0) {
      left -= 1
      await writeDurably(bytes)
      await rows.add({ at: left })
    }
  }
  await Promise.all(Array.from({ length: 32 }, work))
  return jobs / ((performance.now() - from) / 1_000)
}

const rate = await (withKiln ? measureKiln() : measureRaw())
process.stdout.write(JSON.stringify({ rate, peakMb: peakMb() }), () => process.kill(process.pid, "SIGKILL"))
