import { expect } from "vitest"
import { wav } from "@kiln/service-lab"
import { requestBytes } from "../support/Connection.ts"
import { row, table } from "../support/tables.ts"
import { expectReplay } from "./idempotency.ts"

/** Erased data, secrets in responses, and leftovers of clients that disconnect early. */

const left = row("a client that leaves before its answer has one job or none, never a part of one", async (api) => {
  const key = await api.key()
  const call = (n: number) => ({
    method: "POST",
    path: "/v1/audio/speech",
    json: { input: `left ${n}` },
    key,
    headers: { "idempotency-key": `left-${n}` },
  })
  await Promise.all(
    Array.from({ length: 30 }, async (_, n) => {
      const request = await api.request(call(n))
      const connection = await api.connect()
      const bytes = requestBytes(request)
      connection.send(n % 3 === 0 ? bytes : bytes.subarray(0, bytes.length - (n % 3 === 1 ? 0 : 1)))
      // Some leave at once, some while the answer is on its way.
      await new Promise((resolve) => (n % 2 === 0 ? setImmediate(resolve) : setTimeout(resolve, n % 7)))
      connection.destroy()
      const [first, second] = [await api.quietly(call(n)), await api.quietly(call(n))]
      expect(first.status).toBe(202)
      expect(second.json).toEqual(first.json)
      expect(second.header("idempotency-replayed")).toBe("true")
      expect(
        (await api.until({ path: `/v1/jobs/${first.json.id}`, key }, (answer) => answer.json.status === "done")).status,
      ).toBe(200)
    }),
  )
})

export const leaving = table("leaving early", left)

export const pruneSettings = { engine: { jobRetentionMs: 1_500, pruneIntervalMs: 50 } } as const

/** Where records of jobs are kept for less than half a second. */
export const pruned = table(
  "pruned records",
  row("when its record is gone a job is unknown, its URLs are dead and its idempotency key is free", async (api) => {
    const headers = { "idempotency-key": "once" }
    const job = await api.job("/v1/audio/speech", { input: "x" }, { headers })
    const { output } = await api.finished(job.path)
    expectReplay(await api.post("/v1/audio/speech", { input: "x" }, { headers }), job.answer)
    const gone = await api.until({ path: job.path }, (answer) => answer.status === 404)
    expect(gone.comparable).toBe((await api.quietly({ path: "/v1/jobs/job_00000000000000000000000000" })).comparable)
    expect((await api.delete(`${job.path}/data`)).code).toBe("job_not_found")
    expect((await api.get(output.audio_url, { key: null })).status).toBe(410)
    const again = await api.job("/v1/audio/speech", { input: "something else" }, { headers })
    expect(again.answer.header("idempotency-replayed")).toBeUndefined()
    expect(again.id).not.toBe(job.id)
  }),
)

export const silentSettings = { transcript: " \n" } as const

/** Where nobody says anything. */
export const silent = table(
  "silence",
  row("no_speech_detected counts for more than duration_mismatch and less than output_truncated", async (api) => {
    const warningOf = async (declared: number, tokens?: number) => {
      const upload_id = await api.uploaded(wav(1), { declared })
      const job = await (tokens === undefined
        ? api.job("/v1/audio/transcriptions", { upload_id })
        : api.job("/v1/voice/turns", { upload_id, max_output_tokens: tokens }))
      const poll = await api.finished(job.path)
      expect(poll.status).toBe("done")
      return poll.warning_code
    }
    expect([await warningOf(1), await warningOf(60), await warningOf(60, 1024), await warningOf(60, 1)]).toEqual([
      "no_speech_detected",
      "no_speech_detected",
      "no_speech_detected",
      "output_truncated",
    ])
  }),
)
