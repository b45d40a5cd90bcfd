import { Switchboard } from "@kiln/core/ports"
import { describe, expect, it } from "vitest"
import * as Effect from "effect/Effect"
import { seedEveryState } from "../support/copiedRecords.ts"
import { installations } from "../support/installations.ts"
import { jsonOf, refusalOf, runInProcess } from "../support/runInProcess.ts"

describe.each(installations)("kiln queue on %s", (_name, open) => {
  it("stats counts jobs by type and mode, and names paused types", async () => {
    await using installation = await open()
    const { env } = installation
    expect(await jsonOf(["queue", "stats"], env)).toEqual({ project_id: null, queues: [], paused_types: [] })
    await installation.use(seedEveryState)
    const age = expect.any(Number)
    // One of the two jobs in processing runs; the other waits for its next attempt.
    const sandbox = {
      ready: 3,
      running: 1,
      retrying: 1,
      delayed: 0,
      oldest_ready_seconds: age,
      queued: 3,
      processing: 2,
      done_24h: 3,
      failed_24h: 1,
    }
    const live = {
      ready: 0,
      running: 1,
      retrying: 0,
      delayed: 0,
      oldest_ready_seconds: 0,
      queued: 0,
      processing: 1,
      done_24h: 1,
      failed_24h: 0,
    }
    const held_back = expect.any(Array)
    const queue = (mode: string, counts: object) => ({
      type: "speech_synthesis",
      mode,
      ...counts,
      paused: false,
      held_back,
    })
    expect(await jsonOf(["queue", "stats"], env)).toEqual({
      project_id: null,
      queues: [queue("live", live), queue("sandbox", sandbox)],
      paused_types: [],
    })
    expect((await jsonOf(["queue", "stats", "--project", "one"], env)).queues).toHaveLength(2)
    expect(await refusalOf(["queue", "stats", "--project", "two"], env, 1)).toContain('there is no project "two"')
  })

  it("pause and resume change the board, and may be repeated", async () => {
    await using installation = await open()
    const { env } = installation
    const paused = () =>
      installation.use(Effect.flatMap(Switchboard, (board) => Effect.map(board.readBoard, (read) => read.pausedKinds)))
    for (let again = 0; again < 2; again++)
      expect(await jsonOf(["queue", "pause", "voice_turn"], env)).toEqual({ type: "voice_turn", paused: true })
    await jsonOf(["queue", "pause", "transcription"], env)
    expect(await paused()).toEqual(["transcription", "voice_turn"])
    expect((await jsonOf(["queue", "stats"], env)).paused_types).toEqual(["transcription", "voice_turn"])
    expect((await runInProcess(["queue", "stats"], env)).stdout).toBe(
      [
        "TYPE           MODE  READY  RUNNING  RETRYING  DELAYED  DONE (24 H)  FAILED (24 H)",
        "transcription  -     0      0        0         0        0            0              paused",
        "voice_turn     -     0      0        0         0        0            0              paused",
        "",
      ].join("\n"),
    )
    for (let again = 0; again < 2; again++)
      expect(await jsonOf(["queue", "resume", "voice_turn"], env)).toEqual({ type: "voice_turn", paused: false })
    expect(await paused()).toEqual(["transcription"])
    expect(await refusalOf(["queue", "pause", "voice_trun"], env, 2)).toContain(
      'TYPE: unknown job kind "voice_trun"; did you mean "voice_turn"?',
    )
    expect(await paused()).toEqual(["transcription"])
  })
})
