import { expect } from "vitest"
import type { Api } from "../support/Api.ts"
import { whilePaused } from "../support/board.ts"
import { row, tableInTurn } from "../support/tables.ts"
import { sandboxBilling } from "./success.ts"

/** Waiting jobs, and timeouts of waiting, running and retention. One worker with one slot. */

export const deadlineSettings = {
  holds: true,
  engine: {
    concurrency: 1,
    queueLimitMs: 1_500,
    runLimitMs: 3_500,
    sweepIntervalMs: 50,
    dataRetentionMs: 1_500,
    pruneIntervalMs: 50,
  },
} as const

/** Takes the worker's one slot for a while. */
const occupy = async (api: Api, seconds: number) => {
  const job = await api.job("/v1/audio/speech", { input: `hold:${seconds}` })
  await api.polled(job.path, "processing")
  return job
}

/** Where nothing is due for long. */
export const queued = tableInTurn(
  "queued jobs",
  row("a queued job has no output, has Retry-After: 2, and cannot be deleted; then it is done", async (api) => {
    const jobs = await whilePaused(api, ["speech_synthesis", "image_generation"], async () => {
      const speech = await api.job("/v1/audio/speech", { input: "x" })
      const image = await api.job("/v1/images/generations", { prompt: "x" })
      const polls = [await api.get(speech.path), await api.get(image.path)]
      expect(polls.map(({ json }) => json)).toEqual([
        { id: speech.id, status: "queued", billing: sandboxBilling, warning_code: null, error_code: null },
        { id: image.id, status: "queued" },
      ])
      expect(polls.map((poll) => poll.header("retry-after"))).toEqual(["2", "2"])
      for (const { path } of [speech, image]) expect((await api.delete(`${path}/data`)).code).toBe("job_processing")
      return [speech, image]
    })
    for (const { path } of jobs) expect((await api.finished(path)).status).toBe("done")
  }),
)

export const deadlines = tableInTurn(
  "deadlines",
  row("one that runs too long fails with job_timeout, one that waits too long with queue_timeout", async (api) => {
    const running = await occupy(api, 20)
    const waiting = await api.job("/v1/audio/speech", { input: "x" })
    const waitingImage = await api.job("/v1/images/generations", { prompt: "x" })
    const failed = { status: "failed", error_code: "queue_timeout" }
    expect(await api.polled(waiting.path, "finished")).toMatchObject({
      answer: { json: { id: waiting.id, ...failed, billing: sandboxBilling, warning_code: null } },
      statuses: ["queued", "failed"],
    })
    expect(await api.finished(waitingImage.path)).toEqual({ id: waitingImage.id, ...failed })
    expect(await api.finished(running.path)).toMatchObject({ status: "failed", error_code: "job_timeout" })
  }),
  row("data kept long enough expires: no output, data_expired, and every URL is gone", async (api) => {
    const speech = await api.job("/v1/audio/speech", { input: "x" })
    const url: string = (await api.finished(speech.path)).output.audio_url
    const image = await api.job("/v1/images/generations", { prompt: "x" })
    await api.finished(image.path)
    for (const { path } of [speech, image])
      await api.until({ path }, (answer) => answer.json.warning_code === "data_expired")
    expect((await api.get(speech.path)).json).toEqual({
      id: speech.id,
      status: "done",
      billing: sandboxBilling,
      warning_code: "data_expired",
      error_code: null,
    })
    expect((await api.get(image.path)).json).toEqual({ id: image.id, status: "done", warning_code: "data_expired" })
    expect((await api.get(url, { key: null })).code).toBe("file_gone")
    expect((await api.delete(`${speech.path}/data`)).status).toBe(204)
  }),
)
