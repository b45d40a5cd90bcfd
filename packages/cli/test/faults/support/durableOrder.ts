import { readFileSync } from "node:fs"
import { join } from "node:path"
import { temporaryDirectory } from "@kiln/service-lab"
import { blobFile } from "../../support/blobFiles.ts"
import { attach } from "./attach.ts"
import { type Disk, replayDisk } from "./replayDisk.ts"
import { put, startService } from "./Service.ts"
import { noise } from "./speech.ts"
import { writing } from "./traced.ts"

/** What a traced service did, and what of it was out of order. */
export interface DurableOrder {
  readonly accepted: number
  readonly received: number
  readonly erased: number
  /** Blobs that rows came to name. */
  readonly named: number
  readonly violations: ReadonlyArray<string>
}

/** Has a real service accept, receive, run and erase under strace, and checks what was durable when it said so. */
export const durableOrder = async (environment: Readonly<Record<string, string>> = {}): Promise<DurableOrder> => {
  using data = temporaryDirectory()
  using scratch = temporaryDirectory()
  const path = join(scratch.path, "trace")
  const done: Array<{ readonly of: "received" | "erased"; readonly blob: string }> = []
  {
    await using service = await startService(data.path, environment)
    await using _ = await attach(service.kiln.pid, [
      "-y",
      "-s",
      "4200",
      "-o",
      path,
      "-e",
      `trace=${writing},sendto,sendmsg`,
    ])
    for (let round = 1; round <= 2; round++) {
      const { id: upload_id, upload_url } = await service.announce(1)
      await put(upload_url, noise(round, 1))
      done.push({ of: "received", blob: `uploads/${upload_id.slice(4)}/1` })
      const ids = [
        await service.api.createSpeech(`Round ${round}.`),
        (await (await service.request("POST", "/v1/audio/transcriptions", { upload_id }, `t${round}`)).json()).id,
      ]
      await Promise.all(ids.map((id: string) => service.api.finished(id)))
      await service.erase(ids[0])
      done.push({ of: "erased", blob: `jobs/${ids[0].slice(4)}/1/audio` })
    }
  }
  return judge(readFileSync(path, "utf8"), data.path, done)
}

const blobKey = /(?:jobs\/[0-9a-z]{26}\/\d\/audio|uploads\/[0-9a-z]{26}\/\d)/g

const judge = (
  trace: string,
  directory: string,
  done: Array<{ readonly of: "received" | "erased"; readonly blob: string }>,
): DurableOrder => {
  const counts = { accepted: 0, received: 0, erased: 0 }
  const violations: Array<string> = []
  const named = new Set<string>()
  const fileOf = (key: string) => blobFile(directory, key)
  const complain = (isWrong: boolean, what: string) => (isWrong ? void violations.push(what) : undefined)
  const noContent = (disk: Disk) => {
    const next = done.shift()
    if (next === undefined) return violations.push("a 204 nobody expected")
    counts[next.of] += 1
    if (next.of === "erased")
      return complain(!disk.isDurablyGone(fileOf(next.blob)), `204 before ${next.blob} was gone`)
    complain(!disk.isDurable(fileOf(next.blob)), `204 before ${next.blob} was durable`)
    return complain(!disk.hasLogged(next.blob), `204 before the row of ${next.blob} was durable`)
  }
  replayDisk(trace, directory, {
    answer: (status, head, disk) => {
      complain(!disk.isSynced(`${directory}/kiln.db-wal`), `${status} while the log was not synced`)
      if (status === 204) return void noContent(disk)
      if (status !== 202) return
      counts.accepted += 1
      const id = /job_[0-9a-z]{26}/.exec(head)?.[0] ?? "?"
      complain(!disk.hasLogged(id), `202 before ${id} was durable`)
    },
    page: (text, disk) => {
      for (const [key] of text.matchAll(blobKey)) {
        // Pages are written whole: later ones repeat what others said, also of what was removed since.
        if (named.has(key)) continue
        named.add(key)
        complain(!disk.isDurable(fileOf(key)), `a row names ${key} before it was durable`)
      }
    },
  })
  return { ...counts, named: named.size, violations }
}
