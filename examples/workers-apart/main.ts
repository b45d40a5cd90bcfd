// One process submits and waits, two others run the jobs, and one of these is killed:
// `node --conditions=@kiln/source examples/workers-apart/main.ts <postgres:// URL> <directory>`.
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { writeFile } from "node:fs/promises"
import { join } from "node:path"
import { setTimeout } from "node:timers/promises"
import { createEngine } from "@kiln/core"
import { printKind, sharedStores, warmFile } from "./engine.ts"

const [url, directory] = process.argv.slice(2)
if (url === undefined || directory === undefined) throw new Error("pass a postgres:// URL and a directory for files")
const startWorker = (): ChildProcess => {
  const args = ["--conditions=@kiln/source", join(import.meta.dirname, "worker.ts"), url, directory]
  return spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] })
}

await using engine = await createEngine({
  ...sharedStores(url, directory),
  kinds: [printKind(directory)],
  worker: false,
})
const jobs = await Promise.all([1, 2, 3, 4, 5].map((page) => engine.submit("print", { page })))
console.log(`${jobs.length} jobs are ${jobs[0]?.status}, and nobody works`)

const [unlucky, other] = [startWorker(), startWorker()]
try {
  await Promise.all([once(unlucky.stdout!, "data"), once(other.stdout!, "data")])
  unlucky.kill("SIGKILL")
  console.log("two workers have begun a job each; one is killed with kill -9")

  const waiting = jobs.map(async (job) => {
    const done = await engine.wait(job)
    if (done.status !== "done" || done.output === null) throw new Error(`${job.id} is ${done.status}`)
    // The database and the programs share one machine and therefore one clock.
    return { ...done, output: done.output, heardAfterMs: Date.now() - done.finishedAt.getTime() }
  })
  // By now, polling alone would happen only every two seconds.
  await setTimeout(1_600)
  await writeFile(warmFile(directory), "")
  const finished = await Promise.all(waiting)
  const byOther = finished.filter(({ output }) => output.printedBy === other.pid)
  console.log(`${finished.length} jobs are done, ${byOther.length} of them by the worker that was left`)
  console.log(`${finished.filter(({ attempts }) => attempts > 1).length} was taken over`)
  for (const { output } of finished) console.log(new TextDecoder().decode(await engine.readFile(output.sheet)))
  const heardAfterMs = Math.max(...finished.map((one) => one.heardAfterMs))
  console.log(`of each, this process heard within ${heardAfterMs} ms after its end`)
} finally {
  unlucky.kill("SIGKILL")
  other.kill("SIGTERM")
}
const [code] = await once(other, "close")
console.log(`the other worker stopped with ${code}`)
