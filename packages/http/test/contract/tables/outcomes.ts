import { expect } from "vitest"
import type { Api } from "../support/Api.ts"
import { brokenWav, mp3, mp4Start, wav, webmStart } from "@kiln/service-lab"
import { row, rows, table } from "../support/tables.ts"
import { sandboxBilling } from "./success.ts"

/** How jobs end: every error code, every warning the sandbox can be brought to, and what a poll says of them. */

const errorCodes = [
  "audio_unreadable",
  "audio_too_long",
  "audio_too_short",
  "content_rejected",
  "provider_rejected",
  "provider_unavailable",
  "result_invalid",
  "job_timeout",
  "queue_timeout",
  "attempts_exhausted",
  "canceled_by_operator",
  "internal_error",
]

/** The three texts that steer the sandbox, and the kind of job each is in. */
const steered = [
  { field: "input", create: (api: Api, text: string) => api.job("/v1/audio/speech", { input: text }) },
  { field: "prompt", create: (api: Api, text: string) => api.job("/v1/images/generations", { prompt: text }) },
  {
    field: "instructions",
    create: async (api: Api, text: string) =>
      api.job("/v1/voice/turns", {
        upload_id: await api.uploaded(wav(1)),
        max_output_tokens: 1024,
        instructions: text,
      }),
  },
] as const

const failures = steered.flatMap(({ create, field }) =>
  rows(
    errorCodes,
    (code) => `${field} sandbox:fail:${code} fails with that code`,
    async (api, code) => {
      const job = await create(api, `sandbox:fail:${code}`)
      const failed = { id: job.id, status: "failed", error_code: code }
      const audio = { billing: sandboxBilling, warning_code: null }
      expect(await api.finished(job.path)).toEqual(field === "prompt" ? failed : { ...failed, ...audio })
    },
  ),
)

const ordinaryTexts = steered.flatMap(({ create, field }) =>
  rows(
    ["prerequisite_failed", "not_accepted"],
    (code) => `${field} sandbox:fail:${code} is ordinary text, because jobs over HTTP have no such code`,
    async (api, code) => {
      const job = await create(api, `sandbox:fail:${code}`)
      expect((await api.finished(job.path)).status).toBe("done")
    },
  ),
)

const afterDeletion = steered.flatMap(({ create, field }) =>
  rows<string | null>(
    [null, "content_rejected"],
    (code) => `${field} job that ${code ? "failed" : "is done"}: its poll after deletion`,
    async (api, code) => {
      const job = await create(api, code === null ? "ordinary" : `sandbox:fail:${code}`)
      await api.finished(job.path)
      expect((await api.delete(`${job.path}/data`)).status).toBe(204)
      const bare = { id: job.id, status: code === null ? "done" : "failed", warning_code: "data_deleted" }
      const image = code === null ? bare : { ...bare, error_code: code }
      expect((await api.get(job.path)).json).toEqual(
        field === "prompt" ? image : { ...bare, error_code: code, billing: sandboxBilling },
      )
    },
  ),
)

const unfinished = rows(
  ["/v1/audio/speech", "/v1/images/generations"],
  (path) => `DELETE of a job in processing made by ${path} is job_processing, and the job continues`,
  async (api, path) => {
    const job = await api.job(path, { [path.includes("images") ? "prompt" : "input"]: "sandbox:delay:2" })
    await api.polled(job.path, "processing")
    expect((await api.delete(`${job.path}/data`)).code).toBe("job_processing")
    const done = await api.finished(job.path)
    expect(done.status).toBe("done")
    expect(done.output).toBeDefined()
  },
)

const flaky = steered.flatMap(({ create, field }) =>
  rows(
    [0, 1, 2, 3, 9],
    (times) => `${field} sandbox:flaky:${times} ${times < 3 ? "succeeds" : "fails"} within three failures`,
    async (api, times) => {
      const job = await create(api, `sandbox:flaky:${times}`)
      const { answer, statuses } = await api.polled(job.path, "finished")
      expect(answer.json).toMatchObject(
        times < 3 ? { status: "done" } : { status: "failed", error_code: "provider_unavailable" },
      )
      // Attempts that failed are not the client's business.
      expect(["queued", "processing", "done", "failed"].filter((status) => statuses.includes(status))).toEqual(statuses)
    },
  ),
)

const delay = row("sandbox:delay:1 takes a second", async (api) => {
  const begun = Date.now()
  const job = await api.job("/v1/audio/speech", { input: "sandbox:delay:1" })
  expect((await api.finished(job.path)).status).toBe("done")
  expect(Date.now() - begun).toBeGreaterThanOrEqual(1_000)
})

const ordinary = rows(
  [
    "sandbox:fail:unheard_of",
    "sandbox:fail:",
    "sandbox:fail",
    "sandbox:",
    " sandbox:fail:content_rejected",
    "sandbox:fail:content_rejected ",
    "sandbox:fail:content_rejected.",
    "SANDBOX:FAIL:content_rejected",
    "sandbox:fail:Content_Rejected",
    "say sandbox:fail:content_rejected",
    "sandbox:fail:content_rejected\n",
    "sandbox:fail:constructor",
    "sandbox:fail:__proto__",
    "sandbox:flaky:x",
    "sandbox:flaky:-1",
    "sandbox:delay:x",
    "sandbox:delay:-1",
    "sandbox:delay:61",
    "sandbox:delay:86400",
  ],
  (text) => `${JSON.stringify(text)} is ordinary text`,
  async (api, text) => {
    const job = await api.job("/v1/audio/speech", { input: text })
    expect((await api.finished(job.path)).status).toBe("done")
  },
)

/** Runs a transcription of this file and returns how it ended. */
const transcribe = async (api: Api, file: Uint8Array, declared: number, format = "wav") => {
  const upload_id = await api.uploaded(file, { format, declared })
  return api.finished((await api.job("/v1/audio/transcriptions", { upload_id })).path)
}

/** Declared and real seconds, and what comes of them. */
const lengths: ReadonlyArray<readonly [declared: number, real: number, outcome: string | null]> = [
  [1, 1, null],
  [10, 12, null],
  [10, 12.1, "duration_mismatch"],
  [10, 8, null],
  [10, 7.9, "duration_mismatch"],
  [40, 42, null],
  [40, 42.01, "duration_mismatch"],
  [100, 105, null],
  [100, 105.1, "duration_mismatch"],
  [100, 95, null],
  [100, 94.9, "duration_mismatch"],
  [1, 60, "duration_mismatch"],
  [60, 1, "duration_mismatch"],
  [0.001, 2, null],
  [0.001, 2.1, "duration_mismatch"],
  [900, 1, "duration_mismatch"],
  [900, 900, null],
  [900, 901, null],
  [1, 901, "duration_mismatch"],
  [900, 901.01, "audio_too_long"],
  [900, 1_200, "audio_too_long"],
  [1, 1_200, "audio_too_long"],
  [1, 0.1, null],
  [1, 0.09, "audio_too_short"],
  [900, 0.09, "audio_too_short"],
  [1, 0.01, "audio_too_short"],
]

const measured = rows(
  lengths,
  ([declared, real, outcome]) => `${real} s declared as ${declared} s: ${outcome ?? "no warning"}`,
  async (api, [declared, real, outcome]) => {
    const job = await transcribe(api, wav(real), declared)
    const failed = outcome?.startsWith("audio_") === true
    expect(job).toMatchObject({
      status: failed ? "failed" : "done",
      error_code: failed ? outcome : null,
      warning_code: failed ? null : outcome,
      billing: sandboxBilling,
    })
    expect("output" in job).toBe(!failed)
  },
)

const transcript = row("the sandbox's transcript names format and measured seconds", async (api) => {
  const text: string = (await transcribe(api, wav(7), 7)).output.transcript
  expect(text.toLowerCase()).toContain("wav")
  expect(text).toMatch(/\b7(\.0+)?\b/)
  expect((await transcribe(api, wav(7), 7)).output.transcript).toBe(text)
})

const unreadable = rows<readonly [string, Buffer, string]>(
  [
    ["a wave header and nothing behind it", Buffer.from("RIFF\0\0\0\0WAVE", "latin1"), "wav"],
    ["a wave header and noise", brokenWav(), "wav"],
    ["a wave of rate 0", rateZero(), "wav"],
    ["a WebM header and nothing behind it", webmStart(), "webm"],
    ["an MP4 brand and nothing behind it", mp4Start(), "mp4"],
    ["an M4A brand and nothing behind it", mp4Start("M4A "), "m4a"],
    [
      "an ID3 tag and noise",
      Buffer.concat([Buffer.from("ID3\x03\0\0\0\0\0\0", "latin1"), Buffer.alloc(2_000, 0x11)]),
      "mp3",
    ],
  ],
  ([name]) => `${name} is audio_unreadable`,
  async (api, [, file, format]) => {
    expect(await transcribe(api, file, 5, format)).toMatchObject({
      status: "failed",
      error_code: "audio_unreadable",
      warning_code: null,
      billing: sandboxBilling,
    })
  },
)

function rateZero(): Buffer {
  const file = wav(1)
  file.writeUInt32LE(0, 24)
  file.writeUInt32LE(0, 28)
  return file
}

const live = rows(
  [0, 0xffff_ffff],
  (length) => `a wave file whose length says ${length} is measured by what is there`,
  async (api, length) => {
    const file = wav(3)
    file.writeUInt32LE(length, 40)
    file.writeUInt32LE(length, 4)
    expect(await transcribe(api, file, 3)).toMatchObject({ status: "done", warning_code: null })
  },
)

const otherFormats = row("an MP3 is measured too", async (api) => {
  // 383 frames of 1,152 samples at 44.1 kHz: 10.005 s.
  expect(await transcribe(api, mp3(383), 10, "mp3")).toMatchObject({ status: "done", warning_code: null })
  expect(await transcribe(api, mp3(383), 5, "mp3")).toMatchObject({ status: "done", warning_code: "duration_mismatch" })
})

/** Runs a voice turn over one second of audio. */
const turn = async (api: Api, fields: object, declared = 1) => {
  const job = await api.job("/v1/voice/turns", { upload_id: await api.uploaded(wav(1), { declared }), ...fields })
  return { ...job, poll: await api.finished(job.path) }
}

const turns = [
  row("a reply cut short is output_truncated, which counts for more than duration_mismatch", async (api) => {
    const whole = await turn(api, { max_output_tokens: 1024 })
    expect(whole.poll).toMatchObject({ status: "done", warning_code: null })
    const cut = await turn(api, { max_output_tokens: 1 })
    expect(cut.poll).toMatchObject({ status: "done", warning_code: "output_truncated" })
    expect(cut.poll.output.text.length).toBeLessThan(whole.poll.output.text.length)
    expect((await turn(api, { max_output_tokens: 1024 }, 60)).poll.warning_code).toBe("duration_mismatch")
    const both = await turn(api, { max_output_tokens: 1 }, 60)
    expect(both.poll.warning_code).toBe("output_truncated")
    await api.delete(`${both.path}/data`)
    expect((await api.get(both.path)).json.warning_code).toBe("data_deleted")
  }),
  row("a voice turn takes the limits of its audio as a transcription does", async (api) => {
    for (const [real, code] of [
      [0.05, "audio_too_short"],
      [902, "audio_too_long"],
    ] as const) {
      const job = await api.job("/v1/voice/turns", { upload_id: await api.uploaded(wav(real)), max_output_tokens: 5 })
      expect(await api.finished(job.path)).toMatchObject({ status: "failed", error_code: code })
    }
  }),
]

export const outcomes = table(
  "outcomes",
  failures,
  ordinaryTexts,
  afterDeletion,
  unfinished,
  flaky,
  delay,
  ordinary,
  measured,
  transcript,
  unreadable,
  live,
  otherFormats,
  turns,
)
