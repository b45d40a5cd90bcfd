import { mkdirSync, readdirSync, renameSync, rmSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { temporaryDirectory, until } from "@kiln/service-lab"
import { openEngine } from "./support/embedded.ts"
import { removableDisk } from "./support/Mount.ts"
import { describeWith } from "./support/needs.ts"
import { brokenPromises, readRecords } from "./support/Records.ts"
import { expectUnavailable, liveCaller, type Service, slowSpeech, startService } from "./support/Service.ts"

/** A place that can be taken away and given back under a running service. */
interface Removable extends Disposable {
  readonly path: string
  readonly takeAway: () => void
  readonly giveBack: () => void
}

/** Without root: the directory is moved away, and an empty one is in its place, as below a mount. */
const movableDirectory = (): Removable => {
  const parent = temporaryDirectory()
  const path = join(parent.path, "place")
  mkdirSync(path)
  return {
    path,
    takeAway: () => {
      renameSync(path, `${path}-away`)
      mkdirSync(path)
    },
    giveBack: () => {
      rmSync(path, { recursive: true })
      renameSync(`${path}-away`, path)
    },
    [Symbol.dispose]: () => parent[Symbol.dispose](),
  }
}

const stop = async ({ kiln }: Service): Promise<void> => {
  kiln.kill("SIGTERM")
  expect((await kiln.ended()).exit).toBe(0)
}

const untilReady = (service: Service, status: number) =>
  until(async () => ((await service.ready()).status === status ? true : undefined))

const ofFiles = (open: () => Removable): void =>
  it("of the files: nothing is created there, nothing is bought, and work continues once it is back", async () => {
    using data = temporaryDirectory()
    using place = open()
    await using service = await startService(data.path, { KILN_BLOBS: `file:${place.path}`, ...slowSpeech })
    const live = await liveCaller(service, data.path)
    const before = await service.api.finished(await service.api.createSpeech("Before."))
    const bytes = await service.audio(before)

    place.takeAway()
    // Accepted within the second before the next look, they wait.
    const waiting: Array<string> = []
    await until(async () => {
      const answer = await live.speak("During.")
      if (answer.status === 202) waiting.push((await answer.json()).id)
      return answer.status === 503 ? true : undefined
    })
    await untilReady(service, 503)
    expect((await service.ready()).checks["blobs"]).toBe("failing")
    expect(service.kiln.stderr).toMatch(/the blob store .* is gone: mount its disk or move it back/)
    await new Promise((resolve) => setTimeout(resolve, 1_500))
    for (const job of await live.jobs(waiting)) expect(job.billing.amount).toBeNull()
    // A deletion stands, though the bytes cannot go yet.
    await expectUnavailable(await service.erase(before.id))
    expect(readdirSync(place.path)).toEqual([])

    place.giveBack()
    await untilReady(service, 200)
    for (const id of waiting) expect((await live.finished(id)).status).toBe("done")
    const after = await service.api.finished(await service.api.createSpeech("After."))
    expect((await service.audio(after)).length).toBe(bytes.length)
    expect((await service.erase(before.id)).status).toBe(204)
    await stop(service)
    const records = readRecords(data.path)
    expect(brokenPromises(place.path, records?.blobs ?? [])).toEqual([])
    expect(records?.purges).toEqual([])
  })

const ofDatabase = (open: () => Removable): void =>
  it("of the database: no job is accepted into a file that is lost, and work continues once it is back", async () => {
    using place = open()
    await using service = await startService(place.path)
    const { api } = service
    const before = await api.finished(await api.createSpeech("Before."))

    place.takeAway()
    await expectUnavailable(await api.speak("During."))
    await untilReady(service, 503)
    expect((await service.ready()).checks).toMatchObject({ store: "failing", writes: "failing" })
    expect(service.kiln.stderr).toMatch(/the database .*kiln\.db is gone: mount its disk or move it back/)
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    expect(readdirSync(place.path)).toEqual([])

    place.giveBack()
    await untilReady(service, 200)
    expect((await api.job(before.id)).status).toBe("done")
    expect((await api.finished(await api.createSpeech("After."))).status).toBe("done")
    await stop(service)
    expect(readRecords(place.path)).toMatchObject({ integrity: [], jobs: [{ status: "done" }, { status: "done" }] })
  })

const ofEngine = (open: () => Removable, holds: "files" | "everything"): void =>
  it(`of ${holds} of an engine in a program: submissions fail and nothing is created until it is back`, async () => {
    using data = temporaryDirectory()
    using place = open()
    await using engine = await openEngine(holds === "files" ? data.path : place.path, place.path)
    const first = await engine.submit("speech_synthesis", { input: "Before." })
    await engine.wait(first)
    place.takeAway()
    const refused = await until(() =>
      engine.submit("speech_synthesis", { input: "During." }).then(
        () => undefined,
        (error: unknown) => error,
      ),
    )
    expect(String(refused)).toMatch(/is gone: mount its disk/)
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    expect(readdirSync(place.path)).toEqual([])
    place.giveBack()
    const after = await until(async () => engine.submit("speech_synthesis", { input: "After." }).catch(() => undefined))
    expect((await engine.wait(after)).status).toBe("done")
  })

describeWith("mounts", "a disk that is unmounted", () => {
  ofFiles(() => removableDisk(16))
  ofDatabase(() => removableDisk(16))
})

describe("a directory that is moved away", () => {
  ofFiles(movableDirectory)
  ofEngine(movableDirectory, "files")
  ofEngine(movableDirectory, "everything")
})
