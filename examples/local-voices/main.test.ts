import { spawn } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { describeWith } from "./support/needs.ts"
import { understood } from "./support/words.ts"
import { openWav } from "./wav.ts"

const temporaryDirectory = () => {
  const path = mkdtempSync(join(tmpdir(), "kiln-voices-test-"))
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) }
}

/** Runs the example in a separate process. */
const run = async (directory: string, environment: Readonly<Record<string, string>> = {}) => {
  const main = join(import.meta.dirname, "main.ts")
  const child = spawn(process.execPath, ["--conditions=@kiln/source", main, join(directory, "out")], {
    cwd: directory,
    env: { PATH: process.env["PATH"], TMPDIR: directory, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  })
  let [stdout, stderr] = ["", ""]
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text))
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text))
  const [exitCode] = await once(child, "close")
  return { exitCode, stdout, stderr }
}

/** Returns the rest of the line that starts with these words. */
const said = (output: string, start: string): string =>
  output
    .split("\n")
    .find((line) => line.startsWith(start))
    ?.slice(start.length) ?? ""

const secondsOf = (file: Uint8Array): number => {
  const recording = openWav(file)
  return typeof recording === "string" ? 0 : recording.length / recording.sampleRate
}

describeWith(["espeak-ng", "pocketsphinx with its English model"], "the example", () => {
  it("creates speech, transcribes it, answers, and charges for each", { timeout: 180_000 }, async () => {
    using directory = temporaryDirectory()
    const { exitCode, stderr, stdout } = await run(directory.path)
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: "" })

    const out = join(directory.path, "out")
    expect(readdirSync(out).sort()).toEqual(["answer.wav", "data", "spoken.wav"])
    expect(readdirSync(directory.path), "no temporary file is left").toEqual(["out"])
    const [spoken, answer] = ["spoken.wav", "answer.wav"].map((name) => {
      const file = readFileSync(join(out, name))
      expect(stdout).toContain(`  ${join(out, name)}  (${file.length} bytes, audio/wav)\n`)
      expect(secondsOf(file)).toBeGreaterThan(2)
      return file
    })

    const sentence = said(stdout, "Spoken: ")
    const transcript = said(stdout, "Transcribed: ")
    expect(sentence.split(" ").length).toBeGreaterThan(10)
    // Two of its fourteen words may be wrong: another release of either program may speak or hear a little differently.
    expect(understood(sentence, transcript), transcript).toBeGreaterThanOrEqual(0.8)
    const reply = said(stdout, "Answered: ")
    expect(reply).toMatch(/^(What makes you think that|You say that) .*[.?]$/)
    expect(understood(transcript, reply), "the reply turns around what was said").toBeGreaterThan(0.4)
    expect(answer?.length).not.toBe(spoken?.length)

    // The bill: what came in and went out, times the price.
    const seconds = Math.ceil(secondsOf(spoken ?? new Uint8Array(0)))
    const tokens = reply.split(" ").length
    const charges = [
      `speech_synthesis: ${(sentence.length * 0.000015).toFixed(6)} usd  (${sentence.length} input_characters at 0.000015)`,
      `transcription: ${(seconds * 0.0001).toFixed(4)} usd  (${seconds} input_audio_seconds at 0.0001)`,
      `voice_turn: ${+(seconds * 0.0001 + tokens * 0.00002).toFixed(5)} usd  (${seconds} input_audio_seconds at 0.0001, ${tokens} output_tokens at 0.00002)`,
    ]
    expect(stdout.match(/(?<=^Charged for ).*$/gm)).toEqual(charges)
  })
})

describe("how the tests compare words", () => {
  it.each([
    ["One, two three.", "one two three", 1],
    ["one two three four", "one two tree four", 0.75],
    ["one two three four", "", 0],
    ["one two", "one and two and so on", 2 / 6],
    ["one two three", "three two one", 1 / 3],
  ])("%s / %s", (said, heard, part) => expect(understood(said, heard)).toBeCloseTo(part))
})
