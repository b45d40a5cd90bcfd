import { spawnSync } from "node:child_process"
import { describe, expect, it } from "vitest"
import { bytesOf, speak, withStandIn } from "./support.ts"
import { walkAudio } from "./walkAudio.ts"

const formats = Object.keys(walkAudio) as ReadonlyArray<keyof typeof walkAudio>
const mediaTypes = { mp3: "audio/mpeg", aac: "audio/aac", wav: "audio/wav", flac: "audio/flac", opus: "audio/ogg" }

const hasFfprobe = spawnSync("ffprobe", ["-version"]).status === 0
const codecs = { mp3: "mp3", aac: "aac", wav: "pcm_s16le", flac: "flac", opus: "opus" }

describe.each(formats)("%s", (response_format) => {
  it("is valid to its last byte and lasts as long as the text would", () =>
    withStandIn(async (standIn) => {
      for (const characters of [1, 150, 4096]) {
        const response = await speak(standIn, "x".repeat(characters), { response_format })
        expect(response.headers.get("content-type")).toBe(mediaTypes[response_format])
        const seconds = walkAudio[response_format](await bytesOf(response))
        const expected = Math.max(1, characters / 15)
        expect(seconds).toBeGreaterThanOrEqual(expected - 0.001)
        expect(seconds).toBeLessThan(expected + 0.2)
      }
    }))

  it("differs with the text and the voice, and with nothing else", () =>
    withStandIn(async (standIn) => {
      const spoken = async (input: string, voice: string) =>
        (await bytesOf(await speak(standIn, input, { response_format, voice }))).toString("base64")
      const files = [await spoken("one", "alloy"), await spoken("two", "alloy"), await spoken("one", "nova")]
      expect(new Set(files).size).toBe(3)
      expect(await spoken("one", "alloy")).toBe(files[0])
    }))

  it("is decoded completely by ffprobe, without warnings", ({ skip }) =>
    withStandIn(async (standIn) => {
      if (!hasFfprobe) skip("ffprobe is not installed on this machine")
      const input = await bytesOf(await speak(standIn, "x".repeat(60), { response_format }))
      const entries = ["-show_entries", "stream=codec_name,nb_read_frames", "-of", "csv=p=0"]
      const { stderr, stdout } = spawnSync("ffprobe", ["-v", "error", "-count_frames", ...entries, "pipe:0"], { input })
      expect(stderr.toString()).toBe("")
      const [codec, frames] = stdout.toString().trim().split(",")
      expect(codec).toBe(codecs[response_format])
      expect(Number(frames)).toBeGreaterThan(10)
    }))
})

describe("pcm", () => {
  it("is samples and nothing else", () =>
    withStandIn(async (standIn) => {
      const response = await speak(standIn, "x".repeat(30), { response_format: "pcm" })
      expect(response.headers.get("content-type")).toBe("audio/pcm")
      expect((await bytesOf(response)).length).toBe(2 * 48_000)
    }))
})
