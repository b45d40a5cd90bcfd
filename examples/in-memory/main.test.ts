import { execFile } from "node:child_process"
import { join } from "node:path"
import { promisify } from "node:util"
import { expect, it } from "vitest"

it("submits, waits, reads, fails, erases and counts", async () => {
  const main = join(import.meta.dirname, "main.ts")
  const { stderr, stdout } = await promisify(execFile)(process.execPath, ["--conditions=@kiln/source", main])
  expect(stderr).toBe("")
  expect(stdout).toBe(`speech_synthesis is queued
speech_synthesis is done: 12816 bytes of audio/mpeg
transcription is done: Sandbox transcript of an mp3 file of 2.0 seconds.
event: a speech_synthesis failed, content_rejected
speech_synthesis is failed: content_rejected
refused: invalid_request, input: must contain at least one character that is not white space
erased: done null
1 × speech_synthesis done
1 × speech_synthesis failed
1 × transcription done
`)
})
